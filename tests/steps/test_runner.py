"""What a job says at its end, and the exit code that Airflow decides by."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.steps.runner import Job, parser, run
from txloom.storage.runs.job_results import JobResult, ResultFile

DECLARED = """
name: shop
source: {{format: change_sets, files: {{path: {folder}}}}}
completeness: {{rule: single}}
tables: [{{name: rows, source: S.ROWS, key: [id], columns: {{id: long}}}}]
targets: {{mirrors: [rows]}}
"""


def ended(folder: Path, function: Any, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a job with a function as its step; return its exit code and last line."""
    file = folder / "shop.yaml"
    file.write_text(DECLARED.format(folder=folder))
    arguments = ["--pipeline", str(file), "--warehouse", str(folder / "lake"), "--run-id", "r"]
    code = run(Job("publish", function, parser("publish", None), session="none"), arguments)
    said = capsys.readouterr()
    return code, (said.out + said.err).splitlines()[-1]


def result(folder: Path) -> JobResult | None:
    return ResultFile.of(str(folder / "lake"), "shop", "r", "publish").read()


def test_counts_are_the_last_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = ended(tmp_path, lambda *_, **__: {"cut_id": 7}, capsys)
    assert (code, line) == (0, "txloom publish: pipeline=shop run_id=r cut_id=7")
    assert result(tmp_path) == JobResult({"cut_id": 7})


def test_two_writers_of_one_file_end_with_a_code_that_is_retried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1, 2]}))

    def conflicting(*_: object, **__: object) -> dict[str, int]:
        first, second = DeltaTable(path), DeltaTable(path)
        first.delete("id = 1")
        second.delete("id = 2")
        return {}

    code, line = ended(tmp_path, conflicting, capsys)
    assert code == 11
    assert line.startswith("txloom publish failed (WriteConflict, exit code 11): another writer came first: ")


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (SourceUnavailable("no folder"), 12, "txloom publish failed (SourceUnavailable, exit code 12): no folder"),
        (ZeroDivisionError("what"), 1, "txloom publish failed (ZeroDivisionError, exit code 1): what"),
    ],
)
def test_an_error_is_one_sentence_and_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception, code: int, sentence: str
) -> None:
    def failing(*_: object, **__: object) -> dict[str, int]:
        raise error

    assert ended(tmp_path, failing, capsys) == (code, sentence)
    assert result(tmp_path) == JobResult({}, code, sentence)


FAILING = """
import sys, time
from txloom.errors import SourceUnavailable
from txloom.steps.runner import Job, parser, run
from txloom.storage.spark.session import warm_workers

def failing(step):
    warm_workers(step.spark)
    time.sleep(float(sys.argv[1]))
    raise SourceUnavailable("no folder")

sys.exit(run(Job("publish", failing, parser("publish", None)), sys.argv[2:]))
"""


@pytest.mark.long
@pytest.mark.parametrize("seconds", ["0.5", "3"])
def test_a_job_that_fails_while_spark_starts_its_workers_has_the_last_word(tmp_path: Path, seconds: str) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(DECLARED.format(folder=tmp_path))
    flags = ["--pipeline", str(file), "--warehouse", str(tmp_path / "lake"), "--run-id", "r"]
    command = [sys.executable, "-c", FAILING, seconds, *flags]
    failed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert failed.returncode == 12
    assert failed.stdout.splitlines()[-1] == "txloom publish failed (SourceUnavailable, exit code 12): no folder"


def test_a_wrong_declaration_is_told_to_whoever_started_the_job_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.yaml").write_text(DECLARED.format(folder=tmp_path).replace("mirrors", "mirors"))
    monkeypatch.setenv("TXLOOM_PIPELINES", str(tmp_path))
    arguments = ["--pipeline", "shop", "--warehouse", str(tmp_path / "lake"), "--run-id", "r", "--task-id", "again"]
    job = Job("publish", lambda _: {}, parser("publish", None), session="none")
    assert run(job, arguments) == ConfigurationError.exit_code
    written = ResultFile.of(str(tmp_path / "lake"), "shop", "r", "again").read()
    assert written is not None and written.exit_code == ConfigurationError.exit_code
    assert "Did you mean 'mirrors'?" in str(written.message)


def test_a_result_that_cannot_be_written_changes_no_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lake" / "shop").mkdir(parents=True)
    (tmp_path / "lake" / "shop" / "_runs").write_text("a file where a folder should be")
    code, line = ended(tmp_path, lambda _: {"cut_id": 7}, capsys)
    assert code == 0
    assert line.startswith("warn: the result file of this job cannot be written: ")
