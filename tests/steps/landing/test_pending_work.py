"""When a cycle is worth its while: what is new, what was left undone, what time alone decides."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from called import step_of
from topics import no_session
from txloom.config import load
from txloom.config.contents import digest_of, pipeline_content
from txloom.config.models.pipeline import Pipeline
from txloom.steps.landing.land_events import land_events
from txloom.steps.landing.pending_work import reasons
from txloom.storage import system_tables
from txloom.storage.buffer.newest_batch import Declared
from txloom.storage.delta import small_tables
from txloom.storage.landing import landing_plan
from txloom.storage.paths import TablePaths
from txloom.storage.runs.ledger import Entry, write_ledger

SHOP = """
name: shop
source: {{format: goldengate, files: {{path: {inbox}}}, transaction_topic: metadata}}
completeness: {{rule: counts, patience: 1h}}
tables: [{{name: rows, source: S.ROWS, key: [id], columns: {{id: long}}}}]
targets: {{mirrors: [rows]}}
"""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def shop(tmp_path: Path) -> Pipeline:
    (tmp_path / "inbox" / "metadata").mkdir(parents=True)
    (tmp_path / "shop.yaml").write_text(SHOP.format(inbox=tmp_path / "inbox"))
    return load(tmp_path / "shop.yaml")


@pytest.fixture
def paths(tmp_path: Path) -> TablePaths:
    return TablePaths(str(tmp_path / "lake"), "shop")


def land(shop: Pipeline, paths: TablePaths) -> None:
    land_events(step_of(shop, paths.warehouse, "r", no_session))


def buffered(shop: Pipeline, paths: TablePaths, waiting: int = 0, landing_: int = 1) -> None:
    """Let the buffer have seen a landing, of which some transactions wait."""
    rows = [{"xid": f"x{n}", "csn": 100 + n, "first_landed_at": NOW} for n in range(waiting)]
    about = {"release": landing_, "landing": landing_} | Declared(digest_of(pipeline_content(shop)), 1).to_metadata()
    small_tables.replace(paths.table("pending_transactions"), rows, system_tables.PENDING_TRANSACTIONS, about)


def merged(paths: TablePaths, reached: int, release: int = 1, detail: str | None = None) -> None:
    entry = Entry("r", "merge_current", NOW + timedelta(minutes=release), {"release": release}, valid_through=reached)
    write_ledger(paths.warehouse, "shop", Entry(**{**vars(entry), "detail": detail}))


def published(paths: TablePaths, reached: int) -> None:
    small_tables.append(
        paths.table("cuts"), [{"cut_id": 1, "valid_through": reached, "release": 1}], system_tables.CUTS
    )


def test_each_step_that_was_left_undone_is_work_until_it_is_done(shop: Pipeline, paths: TablePaths) -> None:
    def why() -> list[str]:
        return reasons(shop, paths.warehouse, 0)

    assert why() == ["it never ran"]
    land(shop, paths)
    assert why() == ["landing 1 is not buffered"]
    buffered(shop, paths)
    assert why() == ["what was released is not merged"]
    merged(paths, 7)
    assert why() == ["valid-through 7 is not published"]
    published(paths, 7)
    assert why() == []
    merged(paths, 7, release=2, detail="rows: disk full")
    assert why() == ["what was released is not merged"], "a table failed"


def test_what_is_new_and_what_waits_is_work(shop: Pipeline, paths: TablePaths) -> None:
    land(shop, paths)
    merged(paths, 0)
    published(paths, 0)
    for waiting, expected in ((0, []), (2, ["2 transactions wait"])):
        buffered(shop, paths, waiting)
        assert reasons(shop, paths.warehouse, 0) == expected
    assert reasons(shop, paths.warehouse, 3) == ["3 new at the source", "2 transactions wait"]


def test_a_landing_that_was_planned_and_not_finished_is_work(shop: Pipeline, paths: TablePaths) -> None:
    land(shop, paths)
    buffered(shop, paths)
    merged(paths, 0)
    published(paths, 0)
    landing_plan.write_plan(paths, 2, [{"landing": 2, "run_id": "died", "at": NOW}])
    assert reasons(shop, paths.warehouse, 0) == ["landing 2 is not finished"]
