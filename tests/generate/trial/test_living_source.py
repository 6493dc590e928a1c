"""A source that lives: whatever is broken and repaired in whatever order, the lake ends as the source is."""

import shutil
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generate.trial.trials import difference, living
from lake import ORDERS
from txloom.config import load
from txloom.errors import ConfigurationError
from txloom.generate.trial import living_source
from txloom.generate.trial.catalogue import KINDS
from txloom.generate.trial.living_source import KEPT, LivingSource
from txloom.generate.trial.slices import METADATA, topic_of
from txloom.storage.checks.findings import open_findings
from workloads.small_lake import SmallLake

BEGIN = datetime(2026, 6, 1, 12, tzinfo=UTC)
IN_STREAM = [name for name, kind in KINDS.items() if kind.change is not None]


@pytest.fixture
def source(tmp_path: Path) -> LivingSource:
    return living(tmp_path)


def lake_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SmallLake:
    """Make a lake of the shipped declaration, in which a transaction waits for as long as a test takes."""
    monkeypatch.setenv("TXLOOM_INBOX", str(folder / "inbox"))
    return SmallLake(folder, load(ORDERS).model_copy(update={"expectations": ()}))


def test_it_commits_as_much_as_time_passed(source: LivingSource) -> None:
    assert source.advance(BEGIN) == 120
    numbers = [source.advance(BEGIN + timedelta(seconds=20 * n)) for n in range(1, 40)]
    assert sum(numbers) == pytest.approx(780, abs=60)
    assert source.advance(BEGIN + timedelta(seconds=20 * 39)) <= 20, "no time has passed"
    assert source.advance(BEGIN + timedelta(days=2)) == 120, "a source that slept does not make up for it"
    assert source.advance(BEGIN + timedelta(days=2, seconds=30)) < 90, "and its clock is that of the world again"


def test_its_clock_does_not_run_ahead_however_often_it_is_broken(source: LivingSource) -> None:
    """A source whose clock is ahead commits nothing until it is caught up: that is quiet, and nobody made it so."""
    source.advance(BEGIN)
    for n, name in enumerate(IN_STREAM, 1):
        source.damage(name, BEGIN + timedelta(seconds=n))
    assert source.advance(BEGIN + timedelta(seconds=30)) > 10


def test_a_process_that_dies_while_it_delivers_loses_no_fault(
    source: LivingSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    source.advance(BEGIN)
    monkeypatch.setattr(living_source, "deliver", dies)
    with pytest.raises(KeyboardInterrupt):
        source.damage("orphan", BEGIN)
    assert [fault.name for fault in source.open_faults()] == ["orphan"]
    with pytest.raises(KeyboardInterrupt):
        source.repair("orphan", BEGIN + timedelta(seconds=1))
    assert [fault.name for fault in source.open_faults()] == ["orphan"]


def test_one_process_runs_it(source: LivingSource) -> None:
    assert not source.is_running()
    with source.running():
        assert source.is_running()
        with pytest.raises(ConfigurationError, match="another process runs this source"), source.running():
            raise AssertionError
    assert not source.is_running()


def test_a_slice_that_a_killed_process_left_is_delivered_by_the_next(
    source: LivingSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.advance(BEGIN)
    whole = {file.name: file.read_bytes() for file in (source.inbox / METADATA).iterdir()}
    shutil.copytree(source.inbox, source.folder, dirs_exist_ok=True)
    shutil.rmtree(source.inbox / topic_of("orders"))
    source.advance(BEGIN + timedelta(seconds=30))
    assert {file.name: file.read_bytes() for file in (source.inbox / METADATA).iterdir()}.items() >= whole.items()
    lake = lake_of(tmp_path, monkeypatch)
    lake.run()
    assert difference(source, f"{lake.warehouse}/orders") == ""


def test_old_slices_leave_the_inbox(source: LivingSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txloom.generate.trial.living_source.KEPT", 3)
    for n in range(8):
        source.advance(BEGIN + timedelta(seconds=30 * n))
    assert sorted(file.name for file in (source.inbox / METADATA).iterdir()) == [f"{n:08}.jsonl" for n in (5, 6, 7)]
    assert KEPT > 1000


def test_a_fault_is_made_once_until_it_is_repaired(source: LivingSource) -> None:
    source.advance(BEGIN)
    source.damage("lost-row", BEGIN)
    with pytest.raises(ConfigurationError, match="lost-row: it is open since 12:00:00; repair it first"):
        source.damage("lost-row", BEGIN)
    source.repair("lost-row", BEGIN)
    source.damage("lost-row", BEGIN)
    source.damage("quiet-source", BEGIN + timedelta(seconds=1))
    assert [fault.name for fault in source.open_faults()] == ["lost-row", "quiet-source"]
    assert source.advance(BEGIN + timedelta(hours=1)) == 0
    with pytest.raises(ConfigurationError, match="the source is quiet; repair quiet-source first"):
        source.damage("orphan", BEGIN)


@pytest.mark.parametrize(("fault", "cause"), [("lost-metadata", "metadata never came"), ("lost-row", "table short")])
def test_what_is_lost_waits_and_is_whole_when_it_comes_late(
    source: LivingSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, cause: str
) -> None:
    source.advance(BEGIN)
    lake = lake_of(tmp_path, monkeypatch)
    made = source.damage(fault, BEGIN + timedelta(minutes=1))
    lake.run()
    (waiting,) = lake.rows("pending_transactions")
    assert (waiting["xid"], waiting["cause"]) == (made.xid, cause)
    assert source.repair(fault, BEGIN + timedelta(minutes=2)) == f"what was missing of transaction {made.xid} was sent"
    lake.run()
    assert lake.rows("pending_transactions") == []
    assert difference(source, f"{lake.warehouse}/orders") == ""


def test_an_orphan_is_in_the_lake_until_the_source_deletes_it(
    source: LivingSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.advance(BEGIN)
    lake = lake_of(tmp_path, monkeypatch)
    made = source.damage("orphan", BEGIN + timedelta(minutes=1))
    lake.run()
    assert str(made.planted) in difference(source, f"{lake.warehouse}/orders")
    source.repair("orphan", BEGIN + timedelta(minutes=2))
    lake.run()
    assert difference(source, f"{lake.warehouse}/orders") == ""


def test_what_came_twice_is_counted_and_changes_nothing(
    source: LivingSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.advance(BEGIN)
    lake = lake_of(tmp_path, monkeypatch)
    lake.run()
    made = source.damage("connector-restart", BEGIN + timedelta(minutes=1))
    lake.run()
    counts = {(row["run_id"], row["step"]): dict(row["counts"]) for row in lake.rows("ledger")}
    buffered = counts["run-2", "buffer_transactions"]
    again = buffered["duplicates"] + buffered["repeated_metadata"]
    unwatched = counts["run-1", "land_events"]["unwatched"]
    assert f": {again + unwatched} messages were sent a second time" in made.made
    assert difference(source, f"{lake.warehouse}/orders") == ""
    assert source.open_faults() == []


ACTIONS = st.lists(st.sampled_from([*IN_STREAM, "quiet-source", "advance", "repair", "cycle"]), min_size=3, max_size=14)


@pytest.mark.long
@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(actions=ACTIONS)
def test_whatever_is_broken_and_repaired_the_lake_ends_as_the_source_is(
    actions: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, times = tmp_path_factory.mktemp("living"), count(1)
    with pytest.MonkeyPatch.context() as monkeypatch:
        source, lake = living(folder), lake_of(folder, monkeypatch)
        source.advance(BEGIN)
        for action in [*actions, "repair", "cycle"]:
            now = BEGIN + timedelta(seconds=25 * next(times))
            if action == "cycle":
                lake.run()
            elif action == "advance":
                source.advance(now)
            elif action == "repair":
                for fault in source.open_faults():
                    source.repair(fault.name, now)
            elif not source.is_open(action) and not (source.is_open("quiet-source") and action in IN_STREAM):
                source.damage(action, now)
        assert difference(source, f"{lake.warehouse}/orders") == ""
        letters = {letter["cause"] for letter in lake.rows("dead_letters")}
        assert letters == ({"value cannot be read"} if letters else set())


@pytest.mark.parametrize("slices", [2, pytest.param(8, marks=pytest.mark.long)])
def test_rows_that_were_lost_with_a_dead_transaction_are_no_second_finding(
    source: LivingSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slices: int
) -> None:
    """Later changes of a row contradict the table because of the gap, which dead letters and cuts report already."""
    monkeypatch.setenv("ORDERS_PATIENCE", "2s")
    monkeypatch.setenv("ORDERS_STUCK_AFTER", "1s")
    lake = lake_of(tmp_path, monkeypatch)
    for n in range(slices):
        source.advance(BEGIN + timedelta(minutes=n))
    made = source.damage("lost-row", BEGIN + timedelta(minutes=slices))
    lake.run()
    time.sleep(2.2)
    for n in range(slices + 1, slices + 25):
        source.advance(BEGIN + timedelta(minutes=n))
    lake.run()
    assert {letter["xid"] for letter in lake.rows("dead_letters")} == {made.xid}
    assert open_findings(lake.paths) == []
    source.repair("lost-row", BEGIN + timedelta(minutes=slices + 26))
    lake.run()
    lake.run()
    assert open_findings(lake.paths) == []
    assert difference(source, f"{lake.warehouse}/orders") == ""
