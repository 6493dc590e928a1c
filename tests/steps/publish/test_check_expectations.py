"""Expectations through real Delta: they fail for the damaged rows and no others, and pass again after repair."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from called import step_of
from txloom.config import find
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError, ExpectationFailed
from txloom.steps.publish.check_expectations import check_expectations, hold
from txloom.storage.checks.results import of_run
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import PENDING_TRANSACTIONS

pytestmark = pytest.mark.filterwarnings("default")
"""Great Expectations imports modules that Python deprecates."""
CHECKS = {"orphan_line_items", "order_totals", "order_versions", "stuck_transactions"}


@pytest.fixture
def pipeline() -> Pipeline:
    return find("orders")


def store(warehouse: Path, table: str, rows: pa.Table) -> None:
    write_deltalake(str(warehouse / "orders" / table), rows, mode="overwrite")


def keyed(**columns: list[Any]) -> pa.Table:
    size = len(next(iter(columns.values())))
    csns = {"_txloom_csn": pa.array([7] * size, pa.int64()), "_txloom_xid": pa.array(["x7"] * size, pa.string())}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()} | csns)


def check(pipeline: Pipeline, warehouse: Path, run_id: str, only: str) -> dict[str, int]:
    return check_expectations(step_of(pipeline, warehouse, run_id), only=[only])


def results(warehouse: Path) -> list[dict[str, Any]]:
    return small_tables.query(str(warehouse / "orders" / "expectation_results"), "select * from t order by checked_at")


def test_orphans_are_exactly_the_rows_whose_parent_is_missing(pipeline: Pipeline, tmp_path: Path) -> None:
    store(tmp_path, "orders", keyed(order_id=[1, 2]))
    store(tmp_path, "order_line_items", keyed(line_item_id=[10, 11, 12, 13], order_id=[1, 3, None, 4]))
    with pytest.raises(ExpectationFailed) as failure:
        check(pipeline, tmp_path, "r1", "orphan_line_items")
    hint = next(e.hint for e in pipeline.expectations if e.id == "orphan_line_items")
    assert str(failure.value) == (
        "orphan_line_items: 2 of 3 rows fail (line_item_id=11, order_id=3; line_item_id=13, order_id=4) in "
        f"order_line_items version 0, orders version 0. {hint}"
    )
    (result,) = results(tmp_path)
    assert (result["success"], result["checked"], result["failed"]) == (False, 3, 2)
    assert [row["line_item_id"] for row in json.loads(result["sample"])] == [11, 13]
    store(tmp_path, "orders", keyed(order_id=[1, 2, 3, 4]))
    assert check(pipeline, tmp_path, "r2", "orphan_line_items") == {"checked": 1, "failed": 0, "rows": 0}
    assert [result["success"] for result in results(tmp_path)] == [False, True]


def waiting(ages: list[int]) -> pa.Table:
    base = {"cause": "table short", "expected": [("orders", 2)], "received": [("orders", 1)]}
    rows = [{**base, "xid": f"<b>{i}</b>", "csn": i, "age_seconds": age} for i, age in enumerate(ages)]
    return pa.Table.from_pylist(rows, PENDING_TRANSACTIONS)


def test_stuck_transactions_are_counted_all_and_sampled_longest_first(pipeline: Pipeline, tmp_path: Path) -> None:
    store(tmp_path, "pending_transactions", waiting([*range(601, 10_601), 600, 5]))
    assert check(pipeline, tmp_path, "r1", "stuck_transactions") == {"checked": 1, "failed": 1, "rows": 10_000}
    (result,) = results(tmp_path)
    sample = json.loads(result["sample"])
    assert (result["checked"], result["failed"], len(sample)) == (10_002, 10_000, 20)
    assert (sample[0]["age_seconds"], sample[0]["xid"]) == (10_600, "<b>9999</b>")
    assert (sample[0]["expected"], sample[0]["received"]) == ({"orders": 2}, {"orders": 1})


def test_a_repeated_run_enters_its_results_once(pipeline: Pipeline, tmp_path: Path) -> None:
    store(tmp_path, "pending_transactions", waiting([5]))
    for _ in range(2):
        check(pipeline, tmp_path, "r1", "stuck_transactions")
    assert len(results(tmp_path)) == 1


def test_what_a_run_has_found_is_read_once_however_much_is_checked(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = list[str]()

    def counted(paths: TablePaths, run_id: str) -> dict[str, dict[str, Any]]:
        queries.append(run_id)
        return of_run(paths, run_id)

    monkeypatch.setattr("txloom.storage.checks.results.of_run", counted)
    check_expectations(step_of(pipeline, tmp_path, "r1"))
    hold(pipeline, TablePaths(str(tmp_path), pipeline.name), "r1")
    assert queries == ["r1", "r1"], "once by each"
    assert len(results(tmp_path)) == len(CHECKS)


def test_tables_that_do_not_exist_yet_pass_and_say_so(pipeline: Pipeline, tmp_path: Path) -> None:
    done = check_expectations(step_of(pipeline, tmp_path, "r1"))
    assert done == {"checked": 4, "failed": 0, "rows": 0}
    assert {result["expectation"] for result in results(tmp_path)} == CHECKS
    assert {result["detail"] for result in results(tmp_path)} == {"nothing to check yet: the tables do not exist"}


def test_an_unknown_expectation_is_refused_by_name(pipeline: Pipeline, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no expectation is called 'nope'; declared are: orphan"):
        check(pipeline, tmp_path, "r1", "nope")
