"""Expectations meet what producers really do: each fails for the damaged rows alone, and passes after repair."""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from shop import Shop, insert, update
from txloom.errors import ExpectationFailed
from txloom.steps.buffer.buffer_transactions import buffer_transactions
from txloom.steps.landing.land_events import land_events
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.publish.check_expectations import check_expectations
from txloom.steps.publish.publish import publish

pytestmark = pytest.mark.filterwarnings("default")
"""Great Expectations imports modules that Python deprecates."""
TABLES = """
tables:
  - {name: orders, source: APP.ORDERS, key: [id], version: version,
     columns: {id: long, version: long, total: "decimal(10,2)", email: string}}
  - {name: lines, source: APP.LINES, key: [id], columns: {id: long, order_id: long, amount: "decimal(10,2)"}}
targets: {mirrors: ["*"]}
expectations:
  - {kind: orphans, id: orphan_lines, child: lines, parent: orders, parent_key: [order_id], severity: block,
     sentence: Every line has its order., hint: Look for the order.}
  - kind: invariant
    id: totals
    sql: |
      select o.id, o.total, sum(l.amount) as lines from orders o join lines l on l.order_id = o.id
      group by o.id, o.total having o.total <> sum(l.amount) order by o.id
    severity: block
    sentence: An order's total is the sum of its lines.
    hint: Ask the producer for the lost change.
  - {kind: stuck_transactions, id: stuck, older_than: 1s, severity: warn, sentence: Nobody waits., hint: Look.}
  - {kind: dead_letters, id: dead, severity: warn, sentence: Nothing is dead., hint: Redrive.}
  - {kind: version_regressions, id: versions, table: orders, severity: warn, sentence: Versions grow., hint: Look.}
  - {kind: great_expectation, id: emails, table: orders, expectation: ExpectColumnValuesToNotBeNull,
     arguments: {column: email}, severity: warn, sentence: Orders have an e-mail., hint: Ask the shop.}
"""
BEFORE_CHECKS = (land_events, buffer_transactions, merge_current)


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Shop:
    """Return a shop with one published order of two lines."""
    made = Shop(spark, tmp_path, TABLES)
    made.commit(10, order(1, 30), line(1, 1, 10), line(2, 1, 20))
    assert failed(made) == {}
    assert cycle(made) == 1
    return made


def order(number: int, total: int, version: int = 1, email: str | None = "a@b.c") -> Any:
    return insert("orders", id=number, version=version, total=str(total), email=email)


def changed(number: int, total: int, version: int) -> Any:
    return update("orders", {"id": number}, id=number, version=version, total=str(total), email="a@b.c")


def line(number: int, of: int, amount: int) -> Any:
    return insert("lines", id=number, order_id=of, amount=str(amount))


def failed(shop: Shop) -> dict[str, list[dict[str, Any]]]:
    """Run up to the checks; return by expectation the rows that fail, which are all of them."""
    shop.run(BEFORE_CHECKS)
    run = f"run-{shop.runs}"
    try:
        check_expectations(step_of(shop.pipeline, shop.warehouse, run))
    except ExpectationFailed as error:
        shop.refusal = str(error)  # type: ignore[attr-defined]
    rows = shop.query("expectation_results", f"select * from t where run_id = '{run}'")
    assert len(rows) == len(shop.pipeline.expectations)
    samples = {row["expectation"]: json.loads(row["sample"]) for row in rows if not row["success"]}
    assert {name: len(sample) for name, sample in samples.items()} == {
        row["expectation"]: row["failed"] for row in rows if not row["success"]
    }
    return samples


def cycle(shop: Shop) -> int:
    """Publish what the run of the checks has before it; return how many cuts there are."""
    publish(step_of(shop.pipeline, shop.warehouse, f"run-{shop.runs}"))
    return cuts(shop)


def cuts(shop: Shop) -> int:
    return int(shop.query("cuts", "select count(*) as n from t")[0]["n"])


def test_a_lost_parent_holds_publish_back_the_data_is_safe_and_the_next_good_run_publishes(shop: Shop) -> None:
    lost = shop.rows_of(20, order(2, 10), line(3, 2, 5), line(4, 2, 5))[1:]
    shop.send(*lost, shop.metadata_of(20, lines=2))
    shop.commit(21, order(3, 7), line(5, 3, 7))
    orphans = failed(shop)
    assert [(row["id"], row["order_id"]) for row in orphans.pop("orphan_lines")] == [(3, 2), (4, 2)]
    assert orphans == {}
    at = f"in lines version {shop.version('lines')}, orders version {shop.version('orders')}"
    said = f"orphan_lines: 2 of 5 rows fail (id=3, order_id=2; id=4, order_id=2) {at}. Look for the order."
    assert shop.refusal == said  # type: ignore[attr-defined]
    with pytest.raises(ExpectationFailed) as refused:
        cycle(shop)
    assert str(refused.value) == said
    with pytest.raises(ExpectationFailed):
        publish(step_of(shop.pipeline, shop.warehouse, "by hand, without the checks"))
    assert cuts(shop) == 1
    assert shop.shown("lines", "id") == [(1,), (2,), (3,), (4,), (5,)], "the data is safe"
    shop.commit(22, order(2, 10))
    assert failed(shop) == {}
    assert cycle(shop) == 2
    (newest,) = shop.query("cuts", "select * from t where cut_id = 2")
    assert (newest["valid_through"], dict(newest["versions"])["lines"]) == (22, shop.version("lines"))
    history = shop.query(
        "expectation_results", "select * from t where expectation = 'orphan_lines' order by checked_at"
    )
    assert [row["streak"] for row in history] == [0, 1, 2, 0]
    assert [row["first_seen"] for row in history[1:3]] == [history[1]["checked_at"]] * 2
    assert [row["last_good"] for row in history[1:3]] == [history[0]["checked_at"]] * 2


def test_an_invariant_names_the_order_whose_change_was_lost(shop: Shop) -> None:
    shop.commit(20, order(2, 5), line(3, 2, 5))
    lost = shop.rows_of(30, changed(1, 40, 2), line(4, 1, 10))[1:]
    shop.send(*lost, shop.metadata_of(30, lines=1))
    assert failed(shop) == {"totals": [{"id": 1, "total": "30.00", "lines": "40.00"}]}
    with pytest.raises(ExpectationFailed, match="totals: 1 of 6 rows fail"):
        cycle(shop)
    shop.commit(31, changed(1, 40, 2))
    assert failed(shop) == {}
    assert cycle(shop) == 2


@pytest.mark.long
def test_lost_metadata_makes_a_transaction_stuck_then_dead_until_it_comes(shop: Shop) -> None:
    shop.send(*shop.rows_of(40, order(4, 8), line(8, 4, 8)))
    shop.commit(41, order(5, 1), line(9, 5, 1))
    assert set(failed(shop)) <= {"stuck"}
    time.sleep(2.1)
    (stuck,) = failed(shop).pop("stuck")
    assert (stuck["xid"], stuck["csn"], stuck["cause"], stuck["expected"]) == ("x40", 40, "metadata never came", None)
    assert stuck["received"] == {"lines": 1, "orders": 1}
    patient = shop.pipeline
    completeness = patient.completeness.model_copy(update={"patience": timedelta(microseconds=1)})
    shop.pipeline = patient.model_copy(update={"completeness": completeness})
    failures = failed(shop)
    assert {(row["xid"], row["table"], row["cause"]) for row in failures.pop("dead")} == {
        ("x40", "lines", "metadata never came"),
        ("x40", "orders", "metadata never came"),
    }
    assert failures == {}
    shop.pipeline = patient
    shop.send(shop.metadata_of(40, orders=1, lines=1))
    assert failed(shop) == {}
    assert shop.shown("orders", "id") == [(1,), (4,), (5,)]


def test_a_version_that_falls_and_a_value_that_is_lost_are_named_until_they_are_made_good(shop: Shop) -> None:
    shop.commit(50, changed(1, 30, 3), order(6, 0, email=None))
    shop.commit(51, order(7, 0, version=5))
    shop.commit(52, changed(1, 30, 2))
    failures = failed(shop)
    assert failures.pop("versions") == [
        {"id": 1, "version": 2, "csn": 52, "xid": "x52", "highest": 3, "highest_csn": 50}
    ]
    assert failures.pop("emails") == [{"id": 6, "email": None}]
    assert failures == {}
    shop.commit(53, changed(1, 30, 4), changed(6, 0, 2))
    assert failed(shop) == {}
