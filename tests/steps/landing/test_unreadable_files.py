"""A file that cannot be read is named and holds up no other; an operator sets it aside, and that is written down."""

import gzip
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import manual
from called import step_of
from slot import Slot, text, transaction
from steps.landing.nobody import as_nobody
from txloom.config import load
from txloom.errors import ConfigurationError
from txloom.steps.landing.accept_loss import accept_loss
from txloom.steps.landing.check_source import check_source
from txloom.storage.landing import decoding, landing_tables

PROJECT = Path(__file__).resolve().parents[3]
FIRST, SECOND, THIRD = transaction(10, 1, 2), transaction(20, 3), transaction(30, 4)
GONE = "No such file or directory"
CUT = "Compressed file ended before the end-of-stream marker was reached"


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)


def accept(slot: Slot, *files: str) -> dict[str, int]:
    return accept_loss(step_of(slot.pipeline, slot.warehouse, "accepted"), files=files, reason="CHG-7")


def look(slot: Slot) -> dict[str, int]:
    return check_source(step_of(slot.pipeline, slot.warehouse, "look"))


def cut(content: bytes) -> bytes:
    return gzip.compress(content)[:-9]


@pytest.fixture(params=[False, True], ids=["in process", "spark"])
def spread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Land in this process, or let Spark land."""
    if not request.param:
        return None
    session = request.getfixturevalue("spark")
    monkeypatch.setattr(decoding, "LOCAL_BYTES", -1)
    return lambda: session


def test_a_cut_gzip_is_left_out_and_read_once_it_is_whole(slot: Slot, spread: Any) -> None:
    slot.put("1.jsonl", text(FIRST))
    slot.put("2.jsonl.gz", cut(text(SECOND).encode()))
    slot.put("3.jsonl", text(THIRD))
    slot.land(spread)
    assert slot.whole() == {10: {1, 2}, 30: {4}}
    assert slot.findings() == [("file cannot be read", "slot/2.jsonl.gz")]
    assert look(slot)["waiting"] == 0, "it is not read again and again"
    slot.put("2.jsonl.gz", gzip.compress(text(SECOND).encode()))
    slot.land(spread)
    assert slot.whole() == {10: {1, 2}, 20: {3}, 30: {4}}
    assert slot.findings() == []


def damaged(content: bytes) -> bytes:
    """Return a gzip whose check sum is another's."""
    packed = gzip.compress(content)
    return packed[:-8] + bytes(8 * [7])


@pytest.mark.parametrize("content", [damaged, lambda _: b"no gzip", cut])
def test_nothing_of_a_damaged_gzip_is_landed(slot: Slot, content: Callable[[bytes], bytes]) -> None:
    slot.put("1.jsonl.gz", content(text(FIRST).encode()))
    assert slot.land()["landed"] == 0
    assert slot.findings() == [("file cannot be read", "slot/1.jsonl.gz")]


def died(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(landing_tables, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            slot.land()


def deleted(path: Path) -> str:
    path.unlink()
    return GONE


def became_a_folder(path: Path) -> str:
    path.unlink()
    path.mkdir()
    return "Is a directory"


def shrank(path: Path) -> str:
    size = path.stat().st_size
    path.write_text("")
    os.utime(path, (1, 1))
    return f"it has 0 bytes, fewer than the {size} that it had"


@pytest.mark.parametrize("change", [deleted, became_a_folder, shrank])
def test_a_file_that_cannot_be_read_any_more_after_it_was_planned_stops_no_other(
    slot: Slot, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], str]
) -> None:
    slot.put("1.jsonl", text(FIRST))
    path = slot.put("2.jsonl", text(SECOND))
    died(slot, monkeypatch)
    problem = change(path)
    slot.put("3.jsonl", text(THIRD))
    slot.land()
    assert slot.whole() == {10: {1, 2}, 30: {4}}
    (finding,) = slot.query("findings", "select evidence, severity from t where status = 'open'")
    assert finding == {"evidence": f"{problem}; nothing of it was landed behind its byte 0", "severity": "error"}


def test_a_file_that_nobody_may_read_is_landed_once_somebody_may() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        slot = Slot(Path(folder) / "slot")
        for path in (slot.folder, slot.topic.parent, slot.topic):
            path.chmod(0o777)
        slot.put("1.jsonl", text(FIRST))
        closed = slot.put("2.jsonl", text(SECOND))
        slot.put("3.jsonl", text(THIRD))
        closed.chmod(0)
        with as_nobody():
            slot.land()
            assert (slot.whole(), look(slot)["waiting"]) == ({10: {1, 2}, 30: {4}}, 0)
            assert slot.findings() == [("file cannot be read", "slot/2.jsonl")]
        closed.chmod(0o644)
        with as_nobody():
            assert look(slot)["waiting"] == 1
            slot.land()
            assert slot.whole() == {10: {1, 2}, 20: {3}, 30: {4}}


def test_what_follows_an_unreadable_file_does_not_go_on_inside_a_transaction(slot: Slot) -> None:
    lines = transaction(20, 3, 4, 5)
    slot.put("part-1", text(FIRST + lines[:2]))
    slot.put("part-2.gz", cut(text(lines[2:3]).encode()))
    slot.put("part-3", text(lines[3:]))
    slot.land()
    assert slot.whole() == {10: {1, 2}}
    slot.put("part-2.gz", gzip.compress(text(lines[2:3]).encode()))
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}


def test_a_file_is_set_aside_once_and_written_down(slot: Slot) -> None:
    slot.put("1.jsonl", text(FIRST))
    slot.put("2.jsonl.gz", cut(text(SECOND).encode()))
    slot.land()
    assert accept(slot, "slot/2.jsonl.gz") == {"files": 1}
    assert accept(slot, "slot/2.jsonl.gz") == {"files": 0}
    assert [code for code, _ in slot.findings()] == ["records were lost"]
    ledger = slot.query("ledger", "select detail from t where step = 'accept_loss'")
    assert ledger == [{"detail": f"slot/2.jsonl.gz: {CUT} (accepted: CHG-7)"}]
    lost = slot.query("file_positions", "select lost from t where lost is not null")
    assert lost == [{"lost": f"slot/2.jsonl.gz: {CUT}; accepted: CHG-7"}]
    assert slot.land()["landed"] == 0
    slot.put("2.jsonl.gz", gzip.compress(text(SECOND).encode()))
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3}}, "delivered again it is landed"


def test_only_a_file_that_cannot_be_read_is_set_aside(slot: Slot) -> None:
    slot.put("1.jsonl", text(FIRST))
    slot.put("2.jsonl.gz", cut(text(SECOND).encode()))
    slot.land()
    with pytest.raises(ConfigurationError) as refused:
        accept(slot, "slot/1.jsonl")
    assert str(refused.value) == "file 'slot/1.jsonl' is not one that cannot be read; those are: slot/2.jsonl.gz"
    with pytest.raises(ConfigurationError, match="name either topics"):
        accept(slot)
    assert slot.query("ledger", "select detail from t where step = 'accept_loss'") == []


def test_the_command_of_the_docs_sets_a_file_aside(slot: Slot) -> None:
    slot.put("1.jsonl", text(FIRST))
    slot.put("2.jsonl.gz", cut(text(SECOND).encode()))
    slot.land()
    names = {"NAME": str(slot.folder / "slot.yaml"), "TOPIC/FILE": "slot/2.jsonl.gz"}
    (documented,) = manual.commands("### A file that cannot be read")
    command = manual.line(documented, slot.warehouse, names)
    done = job([*command, "--run-id", "r"])
    last = done.stdout.splitlines()[-1:]
    assert (done.returncode, last) == (0, ["txloom accept_loss: pipeline=slot run_id=r files=1"]), done.stderr
    command[command.index("slot/2.jsonl.gz")] = "slot/1.jsonl"
    refused = job(command)
    assert (refused.returncode, "is not one that cannot be read" in refused.stderr) == (2, True)


def job(command: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "include")}
    return subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True, check=False)


CHANGE_SETS = """
name: slot
source: {{format: change_sets, files: {{path: {inbox}, settle: 1s}}}}
completeness: {{rule: single}}
tables:
  - {{name: slot, source: public.slot, key: [id], columns: {{id: long, v: string}}}}
targets: {{mirrors: [slot]}}
"""


@pytest.fixture
def sets(slot: Slot) -> Slot:
    """Read change sets instead."""
    (slot.folder / "slot.yaml").write_text(CHANGE_SETS.format(inbox=slot.topic.parent))
    slot.pipeline = load(slot.folder / "slot.yaml")
    return slot


ROWS = [f"I,{key},{key},2026-01-01T00:00:0{key}Z\n" for key in range(1, 6)]
HEAD = "FLAG,id,v,CDC_TIMESTAMP\n"


def identities(slot: Slot) -> tuple[int, int]:
    """Return how many rows were landed, and how many different ones those are."""
    (row,) = slot.query(
        "change_events", "select count(*) as n, count(distinct transaction_id) as m from t where kind = 'row'"
    )
    return row["n"], row["m"]


def test_a_change_set_that_grows_doubles_no_row_and_one_that_is_touched_shows_nothing(sets: Slot) -> None:
    path = sets.put("1.csv", HEAD + "".join(ROWS[:3]))
    sets.land()
    sets.settle(path)
    assert sets.land()["landed"] == 0
    sets.put("1.csv", "".join([*ROWS[3:], ROWS[0]]), append=True)
    sets.land()
    assert identities(sets) == (9, 6), "the first row, which stands there again, is a change of its own"


@pytest.mark.parametrize("content", [HEAD + "I,1\n", "FLAG,id,FLAG\nI,1,2\n"])
def test_a_change_set_that_is_none_stops_no_other(sets: Slot, content: str) -> None:
    sets.put("1.csv", content)
    sets.put("2.csv", HEAD + ROWS[0])
    assert sets.land()["rows"] == 1
    assert sets.findings() == [("file cannot be read", "slot/1.csv")]
    assert accept(sets, "slot/1.csv") == {"files": 1}
