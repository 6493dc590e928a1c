"""`txloom dry-run`: it says what would be dead letters, waiting and drift, and leaves nothing behind."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from generate.trial.trials import living
from lake import ORDERS
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.steps import dry_run

BEGIN = datetime(2026, 6, 1, 12, tzinfo=UTC)


def tried(folder: Path, *flags: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command on the shipped declaration, in a process of its own."""
    (folder / "scratch").mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "TXLOOM_INBOX": str(folder / "inbox"),
        "TXLOOM_DRIVER_MEMORY": "1g",
        "TMPDIR": str(folder / "scratch"),
    }
    environment.pop("TXLOOM_WAREHOUSE", None)
    return subprocess.run(
        [sys.executable, "-m", "txloom.cli", "dry-run", str(ORDERS), *map(str, flags)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.long
def test_it_says_what_would_go_wrong_and_nothing_of_it_stays(tmp_path: Path) -> None:
    source = living(tmp_path)
    source.advance(BEGIN)
    good = tried(tmp_path, "--keep", tmp_path / "kept")
    assert good.returncode == 0, good.stdout + good.stderr
    assert "land_events: " in good.stdout and "passes" in good.stdout
    assert f"its tables lie in {tmp_path / 'kept' / 'lake'}" in good.stdout
    made = [source.damage(name, BEGIN + timedelta(minutes=n)) for n, name in enumerate(
        ("bad-value", "lost-metadata", "schema-change"), 1
    )]  # fmt: skip
    before = {file: file.read_bytes() for file in sorted((tmp_path / "inbox").rglob("*")) if file.is_file()}
    bad = tried(tmp_path, "--json")
    assert bad.returncode == 6, bad.stdout + bad.stderr
    answer = json.loads(bad.stdout[bad.stdout.index("{") :])
    assert [group["cause"] for group in answer["letters"]["listing"]["groups"]] == ["value cannot be read"]
    assert [(row["xid"], row["cause"]) for row in answer["waiting"]["page"]["rows"]] == [
        (made[1].xid, "metadata never came")
    ]
    assert [(row["code"], row["column"]) for row in answer["findings"]["rows"]] == [("column added", "GIFT_NOTE")]
    after = {file: file.read_bytes() for file in sorted((tmp_path / "inbox").rglob("*")) if file.is_file()}
    assert before == after and not list((tmp_path / "scratch").glob("txloom-dry-run-*"))


def sampled(folder: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> Pipeline:
    monkeypatch.setenv("TXLOOM_INBOX", str(folder / "inbox"))
    monkeypatch.setattr(dry_run, "BYTES", most)
    return dry_run.sampled(load(ORDERS), folder / "scratch")


def test_of_files_the_beginning_is_taken_in_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = living(tmp_path)
    source.advance(BEGIN)
    source.advance(BEGIN + timedelta(minutes=1))
    pipeline = sampled(tmp_path, monkeypatch, 200_000)
    assert pipeline.source.files is not None and pipeline.source.files.path == str(tmp_path / "scratch" / "inbox")
    taken = list((tmp_path / "scratch" / "inbox").glob("*/*.jsonl"))
    assert {file.parent.name for file in taken} == {folder.name for folder in (tmp_path / "inbox").iterdir()}
    assert sum(file.stat().st_size for file in taken) <= 200_000
    shorter = 0
    for file in taken:
        whole, part = (tmp_path / "inbox" / file.parent.name / file.name).read_bytes(), file.read_bytes()
        assert whole.startswith(part) and part.endswith(b"\n")
        shorter += len(part) < len(whole)
    assert shorter
