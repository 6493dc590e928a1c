"""A checkpoint that cannot be gone on with is known before anything is written, and what is wrong with it is named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from txloom.errors import CheckpointDamaged
from txloom.storage.buffer import batch_plan
from txloom.storage.buffer.checkpoint_files import check, is_damage
from txloom.storage.delta import small_tables

TABLE = "1267b960"
ABOUT = json.dumps({"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": "2"}})
DONE = 'v1\n{"nextBatchWatermarkMs":0}'


def offset(plan: str) -> str:
    content = {"sourceVersion": 1, "reservoirId": plan, "reservoirVersion": 3, "index": -1, "isStartingVersion": False}
    return f"v1\n{ABOUT}\n" + json.dumps(content)


def planned(folder: Path, table: str) -> str:
    """Make a plan of landings of a table; return its id."""
    small_tables.ensure(str(folder / "plan"), batch_plan.PLAN)
    row = {"after": 0, "until": 6, "tasks": 1, "change_events": table}
    small_tables.append(str(folder / "plan"), [row], batch_plan.PLAN, once=(batch_plan.PLANNED, 6))
    return str(DeltaTable(str(folder / "plan")).metadata().id)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a checkpoint of three batches, the last of which is not done; its state has a snapshot at version 1."""
    plan = planned(tmp_path, TABLE)
    files = {"metadata": '{"id":"3a2d"}', "commits/0": DONE, "commits/1": DONE}
    files |= {f"offsets/{batch}": offset(plan) for batch in range(3)}
    files |= {f"state/0/{each}/{name}": "x" for each in (0, 1) for name in ("1.zip", "1.changelog", "2.changelog")}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_whole_checkpoint_is_gone_on_with(folder: Path) -> None:
    check(str(folder), TABLE, written=1)
    check(f"file://{folder}", TABLE, written=2)


def test_one_that_was_never_begun_is_whole(tmp_path: Path) -> None:
    check(str(tmp_path / "none"), TABLE, written=-1)
    (tmp_path / "offsets").mkdir()
    check(str(tmp_path), TABLE, written=-1)
    planned(tmp_path, TABLE)
    check(str(tmp_path), TABLE, written=-1)


def test_what_spark_purged_is_not_missed(folder: Path) -> None:
    for name in ("offsets/0", "commits/0", "state/0/0/1.changelog"):
        (folder / name).unlink()
    check(str(folder), TABLE, written=1)


def cut(name: str, size: int = 20) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text((folder / name).read_text()[:size]) and None


def gone(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def emptied(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text("") and None


def foreign(folder: Path) -> None:
    shutil.rmtree(folder / "plan")
    planned(folder, "another")


def older_kind(folder: Path) -> None:
    """Make it one of a version of txloom that let change_events itself stream."""
    shutil.rmtree(folder / "plan")


def another_plan(folder: Path) -> None:
    shutil.rmtree(folder / "plan")
    planned(folder, TABLE)


def cut_plan(folder: Path) -> None:
    for file in (folder / "plan").glob("*.parquet"):
        file.write_bytes(b"PAR1")


def all_of(name: str) -> Callable[[Path], None]:
    return lambda folder: shutil.rmtree(folder / name)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(all_of("offsets"), "offsets is empty, though batch 1 was written", id="missing"),
        pytest.param(cut("offsets/2"), "offsets/2 is cut or not readable", id="offsets cut"),
        pytest.param(cut("offsets/1", len(f"v1\n{ABOUT}\n")), "offsets/1 is cut or not readable", id="offset left out"),
        pytest.param(emptied("offsets/2"), "offsets/2 is cut or not readable", id="offsets emptied"),
        pytest.param(cut("commits/1", 5), "commits/1 is cut or not readable", id="commit cut"),
        pytest.param(emptied("commits/1"), "commits/1 is cut or not readable", id="commit emptied"),
        pytest.param(
            all_of("commits"), "batch 2 is planned, but the last one that is done is -1", id="commits missing"
        ),
        pytest.param(gone("metadata"), "metadata is missing", id="id missing"),
        pytest.param(gone("state/0/1/2.changelog"), "state/0/1/2.changelog is missing", id="state missing"),
        pytest.param(emptied("state/0/0/2.changelog"), "state/0/0/2.changelog is empty", id="state emptied"),
        pytest.param(emptied("state/0/0/1.zip"), "state/0/0/1.zip is empty", id="snapshot emptied"),
        pytest.param(all_of("state/0/1"), "state/0/1/2.changelog is missing", id="a partition missing"),
        pytest.param(foreign, f"its plan is of change_events another, not of {TABLE}", id="foreign"),
        pytest.param(
            older_kind, "it has no plan beside it, as none had in older versions of txloom", id="of an older version"
        ),
        pytest.param(another_plan, "offsets/1 is of another table than its plan", id="of another plan"),
        pytest.param(cut_plan, "its plan cannot be read", id="plan cut"),
    ],
)
def test_damage_is_named(folder: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(folder)
    with pytest.raises(CheckpointDamaged) as refused:
        check(str(folder), TABLE, written=1)
    assert str(refused.value) == message


def test_a_snapshot_that_is_gone_needs_every_change_before_it(folder: Path) -> None:
    (folder / "state/0/0/1.zip").unlink()
    check(str(folder), TABLE, written=1)
    (folder / "state/0/0/1.changelog").unlink()
    with pytest.raises(CheckpointDamaged, match=r"^state/0/0/1\.changelog is missing$"):
        check(str(folder), TABLE, written=1)


def test_an_older_copy_is_not_taken_for_the_newest(folder: Path) -> None:
    with pytest.raises(CheckpointDamaged) as refused:
        check(str(folder), TABLE, written=3)
    assert str(refused.value) == "its last batch is 2, though batch 3 was written: it is an older copy"


STACK = """
\tat org.rocksdb.Example.method(Example.java:10)
\tat org.apache.spark.sql.execution.streaming.state.StateStoreRDD.compute(StateStoreRDD.scala:137)
\tat org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider.getStore(RocksDB.scala:10)"""
LOST_TASK = "Job aborted due to stage failure: Lost task 0.0 in stage 2.0 (TID 3) (host executor driver): "


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred", True),
        ("org.rocksdb.RocksDBException: Corruption: block checksum mismatch in 000008.sst", True),
        ("org.apache.spark.SparkException: something\nCaused by: org.rocksdb.RocksDBException: Corruption", True),
        ("java.lang.OutOfMemoryError: Java heap space", False),
        ("org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows", False),
        (
            "org.apache.spark.api.python.PythonException: Traceback\n  File \"StateStore.py\", line 1\nKeyError: 'a'",
            False,
        ),
        ("org.rocksdb.RocksDBException: While appending to file: 000009.log: No space left on device", False),
    ],
)
def test_only_what_spark_says_of_a_state_is_damage_not_what_is_on_its_stack(said: str, expected: bool) -> None:
    assert is_damage(Exception(LOST_TASK + said + STACK)) is expected
