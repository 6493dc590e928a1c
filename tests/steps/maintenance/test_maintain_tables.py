"""Maintenance through real Delta: content and marks stay, files shrink, published cuts stay readable."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from called import step_of
from lake import Lake, new_lake
from txloom import read
from txloom.errors import ConfigurationError
from txloom.steps.maintenance.maintain_tables import maintain_tables
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.maintenance.log_retention import KEPT
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.system_tables import CUTS, READERS
from txloom.storage.targets.row_tables import create, row_tables

pytestmark = pytest.mark.random_order(disabled=True)
"""The tests are steps of one story."""
FILES = 9


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a lake whose promo_codes lies in nine small files, each commit with its mark."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = new_lake(spark, tmp_path_factory.mktemp("maintained"), monkeypatch)
        for flat in row_tables(made.pipeline):
            create(flat, TablePaths(made.warehouse, made.pipeline.name))
        path = made.path("promo_codes")
        for n in range(1, FILES + 1):
            rows = [{"code": f"P{n}", "_txloom_csn": n}]
            properties = CommitProperties(custom_metadata={"userMetadata": Watermark(n, n).to_json()})
            table = pa.Table.from_pylist(rows, small_tables.schema_of(path))
            write_deltalake(
                path, arrow_tables.conform(table, table.schema), mode="append", commit_properties=properties
            )
        yield made


def maintain(lake: Lake, task: str, run_id: str = "m1") -> dict[str, int]:
    return maintain_tables(step_of(lake.pipeline, lake.warehouse, run_id, lake.spark), task=task)


def codes(lake: Lake, version: int | None = None) -> list[str]:
    return sorted(row["code"] for row in lake.rows("promo_codes", version))


def test_optimize_joins_small_files_and_carries_the_mark_forward(lake: Lake) -> None:
    before = codes(lake)
    counts = maintain(lake, "optimize")
    assert counts["optimized"] == 1
    assert len(DeltaTable(lake.path("promo_codes")).file_uris()) == 1
    assert codes(lake) == before
    assert watermark_of(lake.path("promo_codes")) == Watermark(FILES, FILES)
    assert maintain(lake, "optimize")["optimized"] == 0


def test_statistics_are_what_a_count_says_and_are_entered_once_a_run(lake: Lake) -> None:
    for _ in range(2):
        maintain(lake, "statistics")
    (row,) = lake.query("table_statistics", "select * from t where \"table\" = 'promo_codes'")
    assert (row["rows"], row["version"]) == (FILES, lake.version("promo_codes"))
    assert row["columns"]["code"] == {"nulls": 0, "distinct": FILES, "minimum": "P1", "maximum": "P9"}
    assert row["columns"]["discount"]["nulls"] == FILES


def test_vacuum_skips_a_table_whose_cut_or_reader_needs_files_it_would_remove(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(lake.path("promo_codes"))
    short = lake.pipeline.maintenance.vacuum.model_copy(update={"retain": timedelta(0)})
    kept = lake.pipeline.maintenance.model_copy(update={"vacuum": short})
    eager = Lake(lake.spark, lake.folder, lake.pipeline.model_copy(update={"maintenance": kept}))
    cut = {"cut_id": 1, "versions": [("promo_codes", 3)], "gaps": [], "amends": []}
    small_tables.append(lake.path("cuts"), [cut], CUTS)
    assert maintain(eager, "vacuum")["skipped"] == 1
    assert codes(lake, 3) == ["P1", "P2", "P3"]
    newer = {**cut, "cut_id": 2, "versions": [("promo_codes", lake.version("promo_codes"))]}
    small_tables.append(lake.path("cuts"), [newer], CUTS)
    with read.held(lake.pipeline, reader="month_end", cut_id=1, warehouse=lake.warehouse):
        capsys.readouterr()
        assert maintain(eager, "vacuum")["skipped"] == 1
        refused = "promo_codes: not vacuumed, its version 3 is needed by reader month_end, which holds cut 1 since "
        assert capsys.readouterr().out.startswith(refused)
        assert codes(lake, 3) == ["P1", "P2", "P3"]
    counts = maintain(eager, "vacuum")
    assert (counts["skipped"], counts["files"]) == (0, FILES)
    assert len(list(path.glob("*.parquet"))) == 1
    assert codes(lake) == [f"P{n}" for n in range(1, FILES + 1)]


def test_vacuum_says_how_long_each_log_is_kept_once_and_for_all(lake: Lake) -> None:
    """A system table's for a day, a current table's for two days longer than cuts are readable; what is shown stays."""
    before = watermark_of(lake.path("promo_codes")), codes(lake)
    held = lake.pipeline.maintenance.vacuum.model_copy(update={"retain": timedelta(days=45)})
    long = lake.pipeline.maintenance.model_copy(update={"vacuum": held})
    lasting = Lake(lake.spark, lake.folder, lake.pipeline.model_copy(update={"maintenance": long}))
    tables = ("ledger", "cuts", "promo_codes")
    kept = {each: [] for each in tables}
    for number, either in enumerate((lake, lasting, lasting)):
        maintain(either, "vacuum", f"log{number}")
        for each in tables:
            kept[each].append(DeltaTable(lake.path(each)).metadata().configuration.get(KEPT))
    hours = {each: [None if text is None else int(text.split()[1]) // 24 for text in kept[each]] for each in tables}
    assert hours == {"ledger": [1, 1, 1], "cuts": [1, 1, 1], "promo_codes": [9, 47, 47]}
    assert (watermark_of(lake.path("promo_codes")), codes(lake)) == before
    DeltaTable(lake.path("cuts")).alter.set_table_properties({KEPT: "interval 52 weeks"})
    versions = {each: lake.version(each) for each in tables[1:]}
    maintain(lasting, "vacuum", "again")
    assert {each: lake.version(each) for each in tables[1:]} == versions, "what somebody made longer stays"


def test_the_logs_of_a_cuts_tables_are_kept_as_long_as_a_reader_holds_it(lake: Lake) -> None:
    at, until = datetime.now(UTC) - timedelta(days=100), datetime.now(UTC) + timedelta(hours=1)
    cut = {"cut_id": 7, "valid_through": 1, "published_at": at, "versions": [("promo_codes", 1)]}
    small_tables.append(lake.path("cuts"), [{**cut, "gaps": [], "amends": []}], CUTS)
    hold = {"reader": "month_end", "cut_id": 7, "at": datetime.now(UTC), "until": until}
    small_tables.append(lake.path("readers"), [hold], READERS)
    maintain(lake, "vacuum")
    kept = DeltaTable(lake.path("promo_codes")).metadata().configuration[KEPT]
    assert kept == f"interval {102 * 24} hours"


def test_an_unknown_task_is_refused(lake: Lake) -> None:
    with pytest.raises(ConfigurationError, match="no maintenance task is called 'polish'"):
        maintain(lake, "polish")


def test_the_ledger_names_the_task(lake: Lake) -> None:
    maintain(lake, "optimize", "m9")
    lines = lake.query("ledger", "select step, counts from t where run_id = 'm9'")
    assert [line["step"] for line in lines] == ["maintain_tables.optimize"]
    assert json.dumps(dict(lines[0]["counts"])).count("files") == 2
