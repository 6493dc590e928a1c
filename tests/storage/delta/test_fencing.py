"""Merges by Spark under a lease: Delta takes those of the holder and leaves out what a run before it still writes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from deltalake import DeltaTable

from txloom.errors import LeaseTaken, WriteConflict
from txloom.steps.parallel import run_parallel
from txloom.storage.delta import spark_tables
from txloom.storage.delta.fencing import FENCE, WRITES
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.runs import lease
from txloom.storage.targets import spark_fold

SCHEMA = "id long, note string, _txloom_csn long, _txloom_pos long, _txloom_xid string"


@pytest.fixture
def path(spark: Any, tmp_path: Path) -> Iterator[str]:
    """Return a current table with one row, and end the lease afterwards."""
    folder = str(tmp_path / "orders")
    spark.createDataFrame([(1, "first", 1, 1, "x")], SCHEMA).write.format("delta").save(folder)
    yield folder
    FENCE.end()


def merge(spark: Any, path: str, note: str, csn: int) -> None:
    effects = spark.createDataFrame([(1, note, csn, 1, "x", False, None, None)], f"{SCHEMA}, {VERDICT}")
    spark_fold.merge(path, effects, ["id"], metadata=Watermark(csn, 1).to_json())


VERDICT = ", ".join(f"{name} {kind}" for name, kind in spark_fold.VERDICT.items())


def note(spark: Any, path: str) -> str:
    (row,) = spark_tables.read(spark, path).collect()
    return str(row["note"])


@pytest.mark.long
def test_merges_of_one_lease_and_of_the_next_are_all_written(spark: Any, path: str) -> None:
    for epoch, csns in ((1, (2, 3)), (2, (4,))):
        FENCE.begin(epoch)
        for csn in csns:
            merge(spark, path, f"as of {csn}", csn)
            assert (note(spark, path), newest_metadata(path)["valid_through"]) == (f"as of {csn}", csn)


def test_a_merge_of_a_lease_that_was_taken_over_is_refused(spark: Any, path: str) -> None:
    FENCE.begin(2)
    merge(spark, path, "of the successor", 3)
    FENCE.begin(1)
    with pytest.raises(LeaseTaken, match=r"a later run took the lease over \(epoch 2, this run has 1; "):
        merge(spark, path, "of the zombie", 2)
    assert note(spark, path) == "of the successor"


def test_a_merge_that_had_begun_before_is_left_out_by_delta_and_said_to_be(
    spark: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    FENCE.begin(2)
    merge(spark, path, "of the successor", 3)
    FENCE.begin(1)
    monkeypatch.setattr(FENCE, "refuse_stale", lambda _: None)
    with pytest.raises(WriteConflict, match="the merge was left out, because another run wrote there"):
        merge(spark, path, "of the zombie", 2)
    assert note(spark, path) == "of the successor"


def test_merges_of_two_tables_at_once_carry_their_metadata(
    spark: Any, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The userMetadata records what a table was computed from, so each commit has to carry that of its own table."""
    paths, both = {2: path, 3: str(tmp_path / "lines")}, Barrier(2, timeout=300)
    spark_tables.read(spark, path).write.format("delta").save(paths[3])
    fence = spark_tables.fence

    def fence_both(session: Any, folder: str) -> None:
        fence(session, folder)
        both.wait()

    monkeypatch.setattr(spark_tables, "fence", fence_both)
    FENCE.begin(1)
    run_parallel([partial(merge, spark, folder, f"as of {csn}", csn) for csn, folder in paths.items()])
    assert {csn: newest_metadata(folder)["valid_through"] for csn, folder in paths.items()} == {2: 2, 3: 3}
    assert not any(spark.conf.get(each, None) for each in (spark_tables.USER_METADATA, *spark_tables.FENCED))


def test_an_append_of_a_lease_that_was_taken_over_is_refused(spark: Any, path: str) -> None:
    FENCE.begin(2)
    rows = spark_tables.read(spark, path)
    assert spark_tables.append_once(rows, path, "batches", 5) and not spark_tables.append_once(rows, path, "batches", 5)
    FENCE.begin(1)
    with pytest.raises(LeaseTaken, match=r"a later run took the lease over \(epoch 2, this run has 1; "):
        spark_tables.append_once(rows, path, "batches", 6)
    assert spark_tables.read(spark, path).count() == 2


def test_an_append_whose_files_were_written_when_another_run_took_over_is_refused(
    spark: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stamp comes between the look at the table and the commit: Delta refuses it, and so does the next look."""
    created = DeltaTable.create_write_transaction

    def stamped(table: DeltaTable, *given: Any, **named: Any) -> None:
        monkeypatch.setattr(DeltaTable, "create_write_transaction", created)
        lease._stamp(path, 2 * WRITES)
        created(table, *given, **named)

    FENCE.begin(1)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", stamped)
    with pytest.raises(LeaseTaken):
        spark_tables.append_once(spark_tables.read(spark, path), path, "batches", 5)
    assert spark_tables.read(spark, path).count() == 1
