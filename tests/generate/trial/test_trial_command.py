"""`txloom trial`: what its user reads, and that it lets the source work until it is told to stop."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.process import wait_until
from txloom.cli import main
from txloom.errors import ConfigurationError
from txloom.generate.trial.catalogue import KINDS
from txloom.generate.trial.killed_jobs import kill_a_job
from txloom.generate.trial.slices import METADATA

IN_STREAM = [name for name, kind in KINDS.items() if kind.change is not None]


def said(folder: Path, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Run the command and return what it printed."""
    assert main(["trial", *words, "--folder", str(folder)]) == code
    printed = capsys.readouterr()
    return printed.out + printed.err


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """A source that has worked for a while, and was stopped."""
    with subprocess.Popen(
        [sys.executable, "-m", "txloom.cli", "trial", "run", "--folder", str(tmp_path), "--seconds", "0.5"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: len(list((tmp_path / "inbox" / METADATA).glob("*.jsonl"))) > 1, "a second delivery", 30)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        assert process.wait(10) == 0
    assert re.fullmatch(r"\d\d:\d\d:\d\d 120 transactions", lines[0])
    return tmp_path


@pytest.mark.parametrize("fault", IN_STREAM)
def test_a_fault_says_what_was_done_where_to_look_and_what_to_do(
    running: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    text = said(running, capsys, "break", fault)
    broken, where, see, note, repair = text.splitlines()
    assert note == "note:    the source does not run now, and nobody reads it: `make up` starts both."
    assert broken.startswith("broken:  ") and len(broken) > 60
    assert where == (
        "look at: http://localhost:8080/plugin/txloom, pipeline orders, after its next run; one begins each minute."
    )
    kind = KINDS[fault]
    assert see == f"see:     {kind.see}"
    assert repair.endswith(f"{kind.repair or kind.yours or 'nothing is left to repair'}.")
    repaired = said(running, capsys, "repair")
    if kind.repair:
        assert repaired.startswith(f"repaired: {fault}: ")
    if kind.yours:
        assert f"yours:    {fault}: {kind.yours}." in repaired
    if not kind.lasts or kind.repair:
        assert said(running, capsys, "repair") == "nothing is broken.\n"


def test_it_lists_what_can_be_broken(running: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(running, capsys, "break", "quiet source")
    lines = said(running, capsys, "break").splitlines()
    assert [re.match(r"  make break FAULT=([\w-]+) +\w", line)[1] for line in lines] == list(KINDS)  # type: ignore[index]
    assert [line for line in lines if line.endswith("  (open)")] == [line for line in lines if "quiet-source" in line]
    assert said(running, capsys, "repair", "lost-row") == "lost-row is not open.\n"


def test_what_it_cannot_do_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        said(tmp_path, capsys, "repair", code=2) == f"{tmp_path}/source: no source lives here; `make up` starts it.\n"
    )
    (tmp_path / "source").mkdir()
    refused = said(tmp_path, capsys, "break", "lost-raw", code=2)
    assert refused == f"FAULT: found 'lost-raw', expected one of {', '.join(KINDS)}. Did you mean 'lost-row'?\n"


def test_a_job_of_the_pipeline_is_killed_and_no_other_process(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    job = tmp_path / "jobs" / "merge_current.py"
    job.write_text("import time\ntime.sleep(60)\n")
    command = [sys.executable, str(job), "--pipeline"]
    with pytest.raises(ConfigurationError, match=r"no job of shop_of_this_test ran in 0\.1 s"):
        kill_a_job("shop_of_this_test", tmp_path / "warehouse", within=0.1)
    ours = {**os.environ, "TXLOOM_WAREHOUSE": str(tmp_path / "warehouse")}
    with (
        subprocess.Popen([*command, "shop_of_another_test"], env=ours) as other,
        subprocess.Popen([*command, "shop_of_this_test"], env=ours | {"TXLOOM_WAREHOUSE": "/elsewhere"}) as elsewhere,
        subprocess.Popen([*command, "shop_of_this_test"], env=ours) as process,
    ):
        try:
            text = kill_a_job("shop_of_this_test", tmp_path / "warehouse", within=20)
            assert text == f"process {process.pid}, which ran merge_current of shop_of_this_test, was killed"
            assert process.wait(10) == -signal.SIGKILL
            assert other.poll() is None and elsewhere.poll() is None
        finally:
            process.kill()
            other.kill()
            elsewhere.kill()


def test_what_is_held_back_is_a_message_as_it_was(running: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(running, capsys, "break", "lost-metadata")
    (held,) = json.loads((running / "source" / "_faults" / "lost-metadata.json").read_text())["held"][METADATA]
    said(running, capsys, "repair")
    (late,) = (running / "inbox" / METADATA).glob("late-*.jsonl")
    assert late.read_text() == held + "\n"
    assert json.loads(held)["event_count"] > 0
