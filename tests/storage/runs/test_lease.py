"""One effective run of a pipeline: who holds the lease, who takes it over, and what a run that lost it cannot write."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from services.process import wait_until
from txloom.errors import LeaseTaken
from txloom.storage.delta import small_tables
from txloom.storage.delta.fencing import FENCE, WRITES
from txloom.storage.paths import TablePaths
from txloom.storage.runs import lease
from txloom.storage.stores.delta_tables import table_at

SCHEMA = pa.schema([("n", pa.int64())])
HOLDER = """
import sys, time
from txloom.storage.delta import small_tables
from txloom.storage.runs import lease
from txloom.storage.paths import TablePaths
import pyarrow as pa
place = TablePaths(sys.argv[1], "shop")
with lease.held(place, "other", "merge_current"):
    print("holds", flush=True)
    sys.stdin.readline()
    small_tables.replace(place.table("rows"), [{"n": 66}], pa.schema([("n", pa.int64())]), {"by": "the other"})
    print("wrote", flush=True)
"""

PAUSED = """
import sys
import pyarrow as pa
from deltalake import DeltaTable
from txloom.storage.delta import arrow_tables, data_files, small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.runs import lease

place, how = TablePaths(sys.argv[1], "shop"), sys.argv[2]
path, schema, rows = place.table("rows"), pa.schema([("n", pa.int64())]), [{"n": 66}]
asked = DeltaTable.transaction_version

def pausing(table, write_id):
    found = asked(table, write_id)
    if write_id == "stream":
        print("asked", flush=True)
        sys.stdin.readline()
    return found

with lease.held(place, "other", "buffer_transactions"):
    written = data_files.write_file(pa.table({"n": [66]}), "rows", path)
    DeltaTable.transaction_version = pausing
    if how == "books":
        small_tables.append(path, rows, schema, once=("stream", 5))
    elif how == "local":
        arrow_tables.append_once(pa.Table.from_pylist(rows, schema), path, "stream", 5)
    else:
        data_files.append_files([written], path, "stream", 5)
"""


@pytest.fixture(params=["folder", "s3"])
def paths(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TablePaths:
    monkeypatch.setattr(lease, "BEAT", 0.1)
    monkeypatch.setattr(lease, "SILENCE", 1.0)
    warehouse = str(tmp_path)
    if request.param == "s3":
        s3 = request.getfixturevalue("s3")
        s3.reach(monkeypatch)
        warehouse = f"{s3.bucket('leases')}/{tmp_path.name}"
    made = TablePaths(warehouse, "shop")
    small_tables.replace(made.table("rows"), [{"n": 1}], SCHEMA, {"valid_through": 7})
    return made


class Other:
    """Another run, in a process of its own, which holds the lease; it writes when it is told to."""

    def __init__(self, paths: TablePaths) -> None:
        beats = {"TXLOOM_LEASE_BEAT": "0.1", "TXLOOM_LEASE_SILENCE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, paths.warehouse],
            env={**os.environ, **beats},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None and self.process.stdout.readline() == "holds\n"

    def tell(self) -> tuple[str, str]:
        return self.process.communicate("write\n", timeout=60)


@pytest.fixture
def other(paths: TablePaths) -> Iterator[Other]:
    started = Other(paths)
    yield started
    started.process.kill()
    started.process.communicate()


def rows(paths: TablePaths) -> list[int]:
    return [row["n"] for row in small_tables.query(paths.table("rows"), "select n from t")]


def test_a_lease_that_was_given_back_goes_to_the_next_run_with_the_next_epoch(paths: TablePaths) -> None:
    for number in (1, 2):
        with lease.held(paths, f"run-{number}", "land_events") as holder:
            newest = lease.newest(paths)
            assert newest is not None and (holder.epoch, newest.run_id, newest.released_at) == (
                number,
                f"run-{number}",
                None,
            )
    last = lease.newest(paths)
    assert last is not None and last.released_at is not None
    assert table_at(paths.table("rows")).version() == 0, "tables are stamped only when a lease is taken over"


def test_a_second_run_is_refused_with_the_name_of_the_first(paths: TablePaths, other: Other) -> None:
    begun = time.monotonic()
    with pytest.raises(LeaseTaken) as refused, lease.held(paths, "mine", "publish"):
        pass
    assert time.monotonic() - begun < 30
    message = str(refused.value)
    assert message.startswith(f"pipeline shop is held by run other (merge_current, process {other.process.pid} on ")
    assert message.endswith("; wait for it, or stop it")
    assert other.tell()[0] == "wrote\n"
    assert rows(paths) == [66]


def silent(paths: TablePaths) -> bool:
    holder = lease.newest(paths)
    assert holder is not None
    return lease.silent_since(paths, holder, datetime.now(UTC)) is not None


def test_who_looks_sees_that_a_holder_was_killed_and_that_a_living_one_was_not(paths: TablePaths, other: Other) -> None:
    wait_until(lambda: not silent(paths), "the holder to be heard", 60)
    other.process.kill()
    other.process.wait()
    assert silent(paths)


def test_who_looks_sees_that_a_holder_is_paused_once_it_was_silent_for_long(paths: TablePaths, other: Other) -> None:
    wait_until(lambda: not silent(paths), "the holder to be heard", 60)
    other.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: silent(paths), "the holder to be silent for a second", 60)
    other.process.send_signal(signal.SIGCONT)
    wait_until(lambda: not silent(paths), "the holder to be heard again", 60)


def test_the_lease_of_a_killed_process_of_this_machine_is_taken_over_at_once(
    paths: TablePaths, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "SILENCE", 60)
    other.process.kill()
    other.process.wait()
    begun = time.monotonic()
    with lease.held(paths, "mine", "publish") as holder:
        assert time.monotonic() - begun < lease.SILENCE
        assert holder.epoch == 2
        assert table_at(paths.table("rows")).transaction_version("leases") == 2 * WRITES
        small_tables.replace(paths.table("rows"), [{"n": 2}], SCHEMA, {"valid_through": 8})
    assert rows(paths) == [2]


def machine_of(began: str, boot: str | None = None, namespace: str | None = None) -> str:
    """Return what a lease says of when its process began, as another machine or container would have written it."""
    boot_id, namespace_id, ticks = began.split(" ")
    return f"{boot or boot_id} {namespace or namespace_id} {ticks}"


@pytest.mark.parametrize(
    "elsewhere", [{"boot": "another-boot"}, {"namespace": "pid:[1]"}], ids=["another host", "another container"]
)
def test_a_process_of_another_machine_with_this_ones_name_is_not_taken_for_dead(
    paths: TablePaths, elsewhere: dict[str, str]
) -> None:
    """Its number means nothing here: whether it lives only its heartbeat tells."""
    with lease.held(paths, "theirs", "merge_current"):
        mine = lease.newest(paths)
    assert mine is not None and not lease._is_dead(mine)
    here, theirs = mine.began, machine_of(mine.began, **elsewhere)
    assert lease._is_dead(replace(mine, began=here + "0")), "its number went to a process that began at another time"
    assert not lease._is_dead(replace(mine, began=theirs + "0"))
    assert not lease._is_dead(replace(mine, began="pid:[4026531836]:123")), "a lease of a version before"


def test_a_stamp_changes_neither_rows_nor_what_a_table_is_about(paths: TablePaths, other: Other) -> None:
    from txloom.storage.delta.table_metadata import newest_metadata

    other.process.kill()
    other.process.wait()
    with lease.held(paths, "mine", "publish"):
        assert (rows(paths), newest_metadata(paths.table("rows"))) == ([1], {"valid_through": 7})


def test_a_paused_process_that_wakes_after_its_successor_writes_nothing(paths: TablePaths, other: Other) -> None:
    """docs/faults.md 33: it was stopped before its write, is silent, and goes on when another run is through."""
    other.process.send_signal(signal.SIGSTOP)
    with lease.held(paths, "mine", "publish"):
        small_tables.replace(paths.table("rows"), [{"n": 2}], SCHEMA, {"valid_through": 8})
    assert other.process.stdin is not None
    other.process.stdin.write("write\n")
    other.process.stdin.flush()
    other.process.send_signal(signal.SIGCONT)
    out, err = other.process.communicate(timeout=60)
    assert "wrote" not in out
    assert "LeaseTaken" in out + err
    assert other.process.returncode != 0
    assert rows(paths) == [2]
    last = lease.newest(paths)
    assert last is not None and (last.run_id, last.released_at is None) == ("mine", False)


def test_a_paused_process_that_wakes_amid_its_work_ends_and_says_why(paths: TablePaths, other: Other) -> None:
    """Its heartbeat finds the successor; what it says must be out before the process is gone."""
    other.process.send_signal(signal.SIGSTOP)
    with lease.held(paths, "mine", "publish"):
        pass
    other.process.send_signal(signal.SIGCONT)
    # A request that was under way when the process was paused is given up after half a minute, and made again.
    assert other.process.wait(200) == LeaseTaken.exit_code
    assert other.process.stderr is not None
    err = other.process.stderr.read()
    assert re.fullmatch(
        r"txloom merge_current failed \(LeaseTaken, exit code 10\): the lease of pipeline shop was taken over by run "
        r"mine \(publish, process \d+ on .*\), since .*: this run writes nothing more\n",
        err,
    ), err


def test_a_commit_that_was_under_way_when_the_lease_was_taken_over_is_refused(paths: TablePaths, other: Other) -> None:
    """The table is read before, and the commit comes after: Delta itself refuses it."""
    from deltalake import CommitProperties, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError

    before = table_at(paths.table("rows"))
    other.process.kill()
    other.process.wait()
    with lease.held(paths, "mine", "publish"):
        pass
    properties = CommitProperties(app_transactions=[Transaction("leases", WRITES + 5)])
    with pytest.raises(CommitFailedError):
        write_deltalake(before, pa.table({"n": [66]}), mode="append", commit_properties=properties)
    assert rows(paths) == [1]


@pytest.mark.parametrize("how", ["books", "local", "parts"])
def test_an_append_that_was_paused_between_its_question_and_its_write_adds_nothing_and_sets_nothing_back(
    paths: TablePaths, how: str
) -> None:
    path = paths.table("rows")
    # Its heartbeat would end it first: here only the write itself can be what is refused.
    settings = {"TXLOOM_LEASE_BEAT": "600", "PYTHONPATH": os.pathsep.join(sys.path)}
    paused = subprocess.Popen(
        [sys.executable, "-c", PAUSED, paths.warehouse, how],
        env={**os.environ, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert paused.stdout is not None and paused.stdout.readline() == "asked\n"
    paused.send_signal(signal.SIGSTOP)
    try:
        with lease.held(paths, "mine", "buffer_transactions"):
            for number in (5, 6):
                small_tables.append(path, [{"n": number}], SCHEMA, once=("stream", number))
    finally:
        paused.send_signal(signal.SIGCONT)
        err = paused.communicate("go on\n" * 3, timeout=60)[1]
    assert "LeaseTaken" in err and "a later run took the lease over (epoch 2, this run has 1; " in err
    assert (sorted(rows(paths)), table_at(path).transaction_version("stream")) == ([1, 5, 6], 6)


def test_a_stamp_is_about_the_version_that_it_follows(paths: TablePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run commits while its successor reads the table's mark is not covered by an older mark."""
    from txloom.storage.delta.table_metadata import newest_metadata

    def late(path: str) -> dict[str, int]:
        about = newest_metadata(path)
        if about["valid_through"] == 7:
            FENCE.begin(1)
            small_tables.replace(path, [{"n": 2}], SCHEMA, {"valid_through": 8})
            FENCE.end()
        return about

    monkeypatch.setattr(lease, "newest_metadata", late)
    with lease.held(paths, "dead", "merge_current"):
        monkeypatch.setattr(lease, "_is_dead", lambda _: True)
        with lease.held(paths, "mine", "publish"):
            pass
    assert newest_metadata(paths.table("rows")) == {"valid_through": 8}


def test_numbers_of_writes_grow_within_an_epoch_and_over_epochs() -> None:
    numbers = []
    for epoch in (1, 2):
        FENCE.begin(epoch)
        numbers += [FENCE.next_write() for _ in range(3)]
    FENCE.end()
    assert numbers == sorted(set(numbers), key=lambda number: number or 0)
    assert FENCE.next_write() is None and FENCE.transactions() == []
