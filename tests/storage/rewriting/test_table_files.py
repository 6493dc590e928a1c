"""Files that Spark wrote: with names of partitions, deletion vectors, columns that are not there yet, 96-bit times."""

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from txloom.storage.delta import arrow_tables, data_files, small_merge, small_tables
from txloom.storage.rewriting.changed_keys import ChangedKeys
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.rewriting.table_files import TableFiles

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32())])
PARTS = ("a b", "x/y%", "ü", None)


@pytest.fixture
def written(spark: Any, tmp_path: Path) -> str:
    """Let Spark write twelve rows, three in each partition."""
    path = str(tmp_path / "t")
    small_tables.ensure(path, SCHEMA, small_tables.DELETION_VECTORS, partition_by=["part"])
    rows = [(number, PARTS[number % 4], datetime(9999, 1, 1), date(2026, 1, 1)) for number in range(12)]
    frame = spark.createDataFrame(rows, "id long, part string, at timestamp, day date").coalesce(1)
    frame.write.format("delta").mode("append").save(path)
    return path


def read(files: TableFiles) -> list[dict[str, Any]]:
    rows = [each for file in files.files for each in files.read(file).to_pylist()]
    return sorted(rows, key=lambda each: each["id"])


def stored(path: str) -> list[dict[str, Any]]:
    return arrow_tables.select(path, "select * from t order by id").to_pylist()


def test_rows_are_read_as_any_reader_reads_them(spark: Any, written: str) -> None:
    assert read(TableFiles.open(written)) == stored(written)
    spark.sql(f"delete from delta.`{written}` where id in (3, 1, 5)")
    files = TableFiles.open(written)
    marked = [file for file in files.files if file.kept is not None]
    assert len(marked) == 2
    assert not any(file.can_be_removed for file in marked)
    assert read(files) == stored(written)
    assert len(stored(written)) == 9


def test_a_file_of_a_partition_with_a_strange_name_is_not_removed_by_its_name(written: str) -> None:
    """delta-rs and Spark write it in different ways, so that the removal would name no file."""
    removable = {file.partition["part"]: file.can_be_removed for file in TableFiles.open(written).files}
    assert removable == {"a b": False, "x/y%": False, "ü": False, None: True}


def test_delta_rs_does_not_merge_into_a_table_of_which_it_would_remove_no_file(spark: Any, written: str) -> None:
    assert not small_merge.is_small(written)
    spark.sql(f"delete from delta.`{written}` where part = 'ü'")
    assert small_merge.is_small(written)
    effects = pa.Table.from_pylist([{**each, "at": None, "_txloom_deleted": False} for each in stored(written)])
    small_merge.merge(written, effects.cast(pa.schema([*SCHEMA, ("_txloom_deleted", pa.bool_())])), ["id"], {})
    shown = [(each["id"], each["part"], each["at"]) for each in stored(written)]
    assert shown == [(n, PARTS[n % 4], None) for n in range(12) if PARTS[n % 4] != "ü"]


def test_a_column_that_came_later_is_null(spark: Any, written: str) -> None:
    spark.sql(f"alter table delta.`{written}` add columns (note string)")
    assert read(TableFiles.open(written)) == stored(written)
    assert {each["note"] for each in read(TableFiles.open(written))} == {None}


def test_times_of_96_bits_are_read_as_they_are(spark: Any, written: str) -> None:
    name = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(name)
    spark.conf.set(name, "INT96")
    try:
        frame = spark.sql("select 99L id, 'a b' part, timestamp'9999-12-31 00:00:00' at, date'2026-01-01' day")
        frame.write.format("delta").mode("append").save(written)
    finally:
        spark.conf.set(name, before)
    (row,) = [each for each in read(TableFiles.open(written)) if each["id"] == 99]
    assert row["at"].replace(tzinfo=None) == datetime(9999, 12, 31)


@pytest.mark.parametrize("row_group", [1, 2, 100])
def test_chosen_rows_are_found_in_their_row_groups(
    spark: Any, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_group: int
) -> None:
    """Of files of Spark, of which rows are deleted, and of our own, which have several row groups."""
    spark.sql(f"delete from delta.`{written}` where id in (3, 1, 5)")
    monkeypatch.setattr(data_files, "ROW_GROUP", row_group)
    ours = str(tmp_path / "ours")
    small_tables.ensure(ours, SCHEMA, {})
    made = Rewrite.of(ours, ["id"])
    made.add(arrow_tables.conform(pa.Table.from_pylist([{"id": n, "part": "p"} for n in range(7)]), SCHEMA))
    made.commit({})
    for path in (written, ours):
        table = TableFiles.open(path)
        for some in ([], [0], [3, 6], [1, 2, 8, 9]):
            keys = ChangedKeys.of(pa.table({"id": pa.array(some, pa.int64())}))
            chosen = [row for file in table.files for row in table.chosen(file, ["id"], keys.among).to_pylist()]
            assert sorted(chosen, key=lambda row: row["id"]) == [row for row in stored(path) if row["id"] in some]


def test_bounds_are_those_of_the_log(written: str) -> None:
    files = TableFiles.open(written)
    assert {file.bounds["id"] for file in files.files} == {(0, 8), (1, 9), (2, 10), (3, 11)}
    assert {file.bounds["day"] for file in files.files} == {(20454, 20454)}
