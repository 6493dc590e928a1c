"""Rows that Spark merges into a history which has columns that are not declared any more."""

from pathlib import Path
from typing import Any

from deltalake import DeltaTable, write_deltalake

from txloom.storage.targets import spark_fold

KEY = "_txloom_csn bigint, id bigint"
ALL = f"{KEY}, _txloom_before struct<id: bigint, gone: int>, lines array<struct<n: int, gone: int>>"
DECLARED = f"{KEY}, _txloom_before struct<id: bigint>, lines array<struct<n: int>>"


def test_fields_that_rows_lack_are_null(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "history")
    write_deltalake(path, spark.createDataFrame([(1, 1, (1, 7), [(1, 7)])], ALL).toArrow())
    rows = spark.createDataFrame([(1, 1, (2,), [(5,)]), (2, 2, None, None)], DECLARED)
    spark_fold.correct(path, rows, ["_txloom_csn", "id"], "{}")
    changed, added = DeltaTable(path).to_pyarrow_table().sort_by("id").to_pylist()
    assert changed["_txloom_before"] == {"id": 2, "gone": None}
    assert changed["lines"] == [{"n": 5, "gone": None}]
    assert (added["_txloom_before"], added["lines"]) == (None, None)
