"""Which row was entered last is said by the table, not by the clocks of those who entered rows."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from txloom.steps.landing import pending_work
from txloom.storage import system_tables
from txloom.storage.delta import small_tables
from txloom.storage.landing import landing_plan, landing_tables
from txloom.storage.maintenance import expiry
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, merged
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.targets import shadow_tables

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AHEAD = NOW + timedelta(hours=3)


@pytest.fixture
def paths(tmp_path: Path) -> TablePaths:
    return TablePaths(str(tmp_path), "shop")


def merge(paths: TablePaths, reached: int, at: datetime, detail: str | None = None) -> None:
    entry = Entry("r", "merge_current", at, {"release": reached}, valid_through=reached, detail=detail)
    write_ledger(paths.warehouse, "shop", entry)


def test_the_newest_merge_is_the_last_one_though_a_worker_before_had_a_clock_ahead(paths: TablePaths) -> None:
    merge(paths, 7, AHEAD)
    merge(paths, 8, NOW)
    assert merged(paths, []) == Watermark(8, 8)


def test_a_cycle_knows_that_the_last_merge_is_published(paths: TablePaths) -> None:
    landing_tables.create_tables(paths)
    landing_plan.write_plan(paths, 1, [{"landing": 1, "run_id": "r", "at": NOW}])
    write_ledger(paths.warehouse, "shop", Entry("r", "land_events", NOW, {}, batch=1))
    about = {"release": 8, "landing": 1}
    small_tables.replace(paths.table("pending_transactions"), [], system_tables.PENDING_TRANSACTIONS, about)
    merge(paths, 7, AHEAD)
    assert pending_work.unfinished(paths) == ["what was released is not merged"]
    merge(paths, 8, NOW)
    small_tables.append(paths.table("cuts"), [{"cut_id": 1, "valid_through": 8, "release": 8}], system_tables.CUTS)
    assert pending_work.unfinished(paths) == []
    merge(paths, 8, NOW - timedelta(hours=1), "orders: disk full")
    assert pending_work.unfinished(paths) == ["what was released is not merged"]


def test_the_newest_backfill_and_the_newest_comparison_of_a_table_are_the_last_ones(paths: TablePaths) -> None:
    about = {"from_csn": 1, "counts": {}, "status": "compared"}
    path = paths.table("backfills")
    for run, table, at, digest in (
        ("a", None, AHEAD, 0),
        ("b", None, NOW, 0),
        ("b", "t", AHEAD, 1),
        ("b", "t", NOW, 2),
    ):
        row = {**about, "run_id": run, "table": table, "at": at, "digest": digest}
        small_tables.append(path, [row], system_tables.BACKFILLS)
    newest = shadow_tables.newest_run(paths)
    assert newest is not None and newest["run_id"] == "b"
    assert [row["digest"] for row in shadow_tables.compared(paths, "b")] == [2]


def test_a_ledger_of_a_version_before_goes_on_and_what_comes_now_is_newer(paths: TablePaths) -> None:
    before = system_tables.LEDGER.remove(system_tables.LEDGER.names.index("entered"))
    old = [
        {"run_id": "r", "step": "merge_current", "generation": 0, "batch": 0, "valid_through": n, "at": at}
        | {"counts": {"release": n}}
        for n, at in ((5, NOW), (6, AHEAD))
    ]
    write_deltalake(paths.table("ledger"), pa.Table.from_pylist(old, before))
    assert merged(paths, []) == Watermark(6, 6), "its rows know their clocks only"
    merge(paths, 7, NOW)
    assert merged(paths, []) == Watermark(7, 7)
    numbers = small_tables.query(paths.table("ledger"), "select entered from t order by valid_through")
    assert numbers == [{"entered": None}, {"entered": None}, {"entered": 1}]


def test_a_shortened_ledger_keeps_the_order_of_its_rows(paths: TablePaths) -> None:
    for n in range(1, 5):
        merge(paths, n, NOW - timedelta(hours=n))
    assert expiry.shorten_ledger(paths, NOW + timedelta(days=1)) == 3
    assert merged(paths, []) == Watermark(4, 4)
    assert DeltaTable(paths.table("ledger")).version() == 5
