"""A cut by other readers (Spark SQL, deltalake with pandas, DuckDB, Polars), of a table with rows marked as deleted."""

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from called import step_of
from lake import merge_by_spark
from released import Released
from txloom import read
from txloom.steps.export.export_cut import Choice, export_cut
from txloom.steps.publish.publish import publish

CUT = [(1, "b"), (3, "c")]


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Released:
    """Return a pipeline whose cut has a row that Spark has marked as deleted, and another one; it went on since."""
    made = Released(tmp_path_factory.mktemp("readers"), "id: long, note: string")
    with pytest.MonkeyPatch.context() as monkeypatch:
        merge_by_spark(monkeypatch)
        for csn, changes in enumerate(
            (
                [("I", {}, {"id": each, "note": "abc"[each - 1]}) for each in (1, 2, 3)],
                [("D", {"id": 2, "note": "b"}, {}), ("U", {"id": 1}, {"id": 1, "note": "b"})],
            ),
            1,
        ):
            made.release(csn, changes)
            made.merge(lambda: spark)
        publish(step_of(made.pipeline, made.folder, "published"))
        made.release(3, [("I", {}, {"id": 4, "note": "later"})])
        made.merge(lambda: spark)
    return made


@pytest.fixture(scope="module")
def version(lake: Released) -> int:
    return read.versions(lake.pipeline, warehouse=str(lake.folder))["readings"]


def test_the_cut_has_rows_that_are_marked_as_deleted(lake: Released, version: int) -> None:
    assert DeltaTable(lake.paths.table("readings"), version=version).deletion_vectors().read_all().num_rows


def test_by_spark_sql(lake: Released, version: int, spark: Any) -> None:
    sql = f"select id, note from delta.`{lake.paths.table('readings')}` version as of {version} order by id"
    assert [tuple(row) for row in spark.sql(sql).collect()] == CUT


def test_by_deltalake_and_pandas(lake: Released, version: int) -> None:
    table = DeltaTable(lake.paths.table("readings"), version=version)
    arrow = QueryBuilder().register("t", table).execute("select id, note from t order by id").read_all()
    assert list(pa.table(arrow).to_pandas().itertuples(index=False, name=None)) == CUT


def test_by_duckdb(lake: Released, version: int) -> None:
    rows = read.at_version(lake.pipeline, "readings", version, warehouse=str(lake.folder))
    assert rows.num_rows == 2
    assert duckdb.sql("select id, note from rows order by id").fetchall() == CUT


def test_by_polars(lake: Released, version: int) -> None:
    rows = read.at_version(lake.pipeline, "readings", version, warehouse=str(lake.folder))
    assert pl.from_arrow(rows).select("id", "note").sort("id").rows() == CUT
    scanned = pl.scan_delta(lake.paths.table("readings"), version=version).select("id", "note").collect()
    assert scanned.sort("id").rows() == CUT


def test_as_parquet(lake: Released, tmp_path: Path) -> None:
    export_cut(step_of(lake.pipeline, lake.folder, "exported"), Choice(str(tmp_path / "out")))
    files = str(tmp_path / "out" / "readings" / "*.parquet")
    assert duckdb.sql(f"select id, note from '{files}' order by id").fetchall() == CUT
    assert pl.read_parquet(files).select("id", "note").sort("id").rows() == CUT
