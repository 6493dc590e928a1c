"""A producer's mistakes through real Spark and Delta: named as findings and causes, repaired, redriven."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from shop import Shop, delete, insert, truncate, update
from txloom.quality import findings as f
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.landing import producer_checks
from txloom.storage.views.status import status

pytestmark = pytest.mark.session
TABLES = """
tables:
  - {name: orders, source: APP.ORDERS, key: [id], columns: {id: long, note: string}}
  - {name: lines, source: APP.LINES, key: [id], columns: {id: long, order_id: long}}
targets: {mirrors: ["*"]}
"""


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Shop:
    """Return a shop whose patience ends with the next run."""
    return Shop(spark, tmp_path, TABLES, patience="1s")


def with_policy(spark: Any, folder: Path, **policy: str) -> Shop:
    made = Shop(spark, folder, TABLES, patience="1s", source=", run_token: RUN")
    completeness = made.pipeline.completeness.model_copy(update=policy)
    made.pipeline = made.pipeline.model_copy(update={"completeness": completeness})
    return made


def wait(shop: Shop) -> None:
    """Run until patience is over."""
    import time

    shop.run()
    time.sleep(1.1)
    shop.run()


def causes(shop: Shop) -> dict[str, int]:
    return {row["cause"]: row["events"] for row in status(shop.warehouse, "shop")["dead_letters"]}


@pytest.mark.long
def test_a_grouping_producer_is_named_with_the_setting_to_change(shop: Shop) -> None:
    for csn in (10, 11, 12):
        shop.send(*shop.rows_of(csn, insert("orders", id=csn, note="a")))
    shop.send(shop.metadata_of(10, orders=3))
    shop.run()
    assert shop.findings() == [], "their rows and metadata may be on the way"
    wait(shop)
    assert shop.findings() == [(f.GROUPED, None, None, 10, False)]
    assert "GROUPTRANSOPS 1" in f.HINTS[f.GROUPED]
    shop.send(*(shop.metadata_of(csn, orders=1) for csn in (10, 11, 12)))
    shop.run()
    assert shop.shown("orders", "id") == [(10,), (11,), (12,)]


@pytest.mark.long
def test_deletes_that_are_not_counted_are_a_cause_of_their_own_and_corrected_metadata_repairs_it(shop: Shop) -> None:
    shop.commit(10, insert("orders", id=1, note="a"), insert("orders", id=2, note="b"))
    shop.send(*shop.rows_of(20, delete("orders", id=1), update("orders", {"id": 2}, id=2, note="c")))
    shop.send(shop.metadata_of(20, orders=1))
    shop.send(*shop.rows_of(30, delete("orders", id=2)))
    wait(shop)
    assert causes(shop) == {"counts ignore deletes": 3, "metadata never came": 1}
    hints = [row["hint"] for row in status(shop.warehouse, "shop")["dead_letters"]]
    assert all("redrive" in hint for hint in hints)
    assert shop.findings() == [(f.DELETES_UNCOUNTED, "orders", None, 20, False)]
    shop.send(shop.metadata_of(20, orders=2), shop.metadata_of(30, orders=1))
    shop.run()
    assert shop.shown("orders", "id") == []
    assert causes(shop) == {}


@pytest.mark.long
def test_late_events_join_the_dead_letters_and_redrive_by_themselves_what_they_complete(shop: Shop) -> None:
    """The missing row of one comes, and the metadata of the other; nothing else has to be done."""
    first = shop.rows_of(10, insert("orders", id=1, note="a"), insert("lines", id=5, order_id=1))
    shop.send(first[0], shop.metadata_of(10, orders=1, lines=1))
    shop.send(*shop.rows_of(20, insert("orders", id=2, note="b")))
    wait(shop)
    assert causes(shop) == {"table short": 2, "metadata never came": 1}
    shop.send(first[1], first[1], first[0])
    assert shop.run()["buffer_transactions"]["redriven"] == 1
    assert (shop.shown("orders", "id"), shop.shown("lines", "id")) == ([(1,)], [(5,)])
    shop.send(shop.metadata_of(20, orders=1))
    assert shop.run()["buffer_transactions"]["redriven"] == 1
    assert shop.shown("orders", "id") == [(1,), (2,)]
    assert causes(shop) == {}
    letters = shop.query(
        "dead_letters", "select kind, cause from t where detail like 'came after%' or kind = 'metadata'"
    )
    assert {(row["kind"], row["cause"]) for row in letters} == {
        ("metadata", "table short"), ("metadata", "metadata never came")
    }  # fmt: skip


@pytest.mark.long
def test_what_is_complete_now_waits_for_approval_where_the_pipeline_says_so(spark: Any, tmp_path: Path) -> None:
    shop = with_policy(spark, tmp_path, complete_now="approve")
    shop.send(*shop.rows_of(20, insert("orders", id=2, note="b")))
    wait(shop)
    shop.send(shop.metadata_of(20, orders=1))
    shop.run()
    assert shop.shown("orders", "id") == []
    (cut,) = shop.query("cuts", "select gaps from t order by cut_id desc limit 1")
    assert [gap["cause"] for gap in cut["gaps"]] == ["complete now"]
    assert status(shop.warehouse, "shop")["complete_now"] == ["x20:20"]
    redrive(step_of(shop.pipeline, shop.warehouse, "approved"), Selection(transactions=["x20:20"]))
    shop.run()
    assert shop.shown("orders", "id") == [(2,)]
    assert status(shop.warehouse, "shop")["complete_now"] == []


def two_runs(shop: Shop) -> None:
    first, second = (
        shop.rows_of(20, insert("orders", id=number, note="n"), tokens={"RUN": run})
        for number, run in ((1, "7001"), (2, "7002"))
    )
    shop.send(*first, *second, shop.metadata_of(20, orders=2))


def test_a_transaction_of_two_producer_runs_is_released_with_a_warning(spark: Any, tmp_path: Path) -> None:
    shop = with_policy(spark, tmp_path)
    two_runs(shop)
    shop.run()
    assert shop.shown("orders", "id") == [(1,), (2,)]
    assert shop.findings() == [(f.TWO_RUNS, "orders", None, 20, True)]


@pytest.mark.long
def test_a_transaction_of_two_producer_runs_is_held_until_somebody_redrives_it(spark: Any, tmp_path: Path) -> None:
    shop = with_policy(spark, tmp_path, suspects="hold")
    two_runs(shop)
    shop.run()
    assert shop.query("pending_transactions", "select cause from t") == [{"cause": "two producer runs"}]
    wait(shop)
    assert (shop.shown("orders", "id"), causes(shop)) == ([], {"two producer runs": 3})
    shop.pos = 0
    two_runs(shop)
    shop.run()
    assert (shop.shown("orders", "id"), causes(shop)) == ([], {"two producer runs": 3}), "redelivered, and still held"
    redrive(step_of(shop.pipeline, shop.warehouse, "compared"), Selection(causes=["two producer runs"]))
    shop.run()
    assert (shop.shown("orders", "id"), causes(shop)) == ([(1,), (2,)], {})


def test_updates_without_the_image_before_are_named(shop: Shop) -> None:
    shop.commit(10, insert("orders", id=1, note="a"), insert("lines", id=1, order_id=1))
    shop.commit(20, *[update("orders", None, id=1, note=str(number)) for number in range(5)])
    shop.commit(30, *[update("lines", {"id": 1}, id=1, order_id=number) for number in range(5)])
    shop.run()
    assert shop.findings() == [(f.NO_BEFORE, "orders", None, 20, False)]


def test_a_second_schema_with_the_same_short_name_is_named(shop: Shop) -> None:
    other = shop.rows_of(10, insert("orders", id=1, note="archive"))[0].replace("APP.ORDERS", "ARCHIVE.ORDERS")
    shop.send(other, *shop.rows_of(10, insert("orders", id=1, note="a")), shop.metadata_of(10, orders=2))
    shop.run()
    assert shop.findings() == [(f.SHORT_NAMES, "orders", None, 10, False)]


def test_a_source_that_was_restored_shows_in_csns_that_jump_back_while_time_goes_on(shop: Shop) -> None:
    shop.commit(5000, insert("orders", id=1, note="a"))
    shop.run()
    shop.send(*shop.rows_of(40, insert("orders", id=2, note="b")))
    shop.send(shop.metadata_of(40, orders=1).replace("2026-01-01 00:00:40", "2026-01-02 00:00:00"))
    shop.run()
    assert (f.CSN_BACK, None, None, 40, True) in shop.findings()


@pytest.mark.long
@pytest.mark.parametrize(("recent", "before", "codes"), [(7, 0, [f.XID_AGAIN]), (0, 0, []), (0, 1, [f.XID_AGAIN])])
def test_ids_are_compared_with_those_of_days_and_in_a_days_first_landing_with_all(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, recent: int, before: int, codes: list[str]
) -> None:
    """before: how many days before the second landing the first one was."""
    monkeypatch.setattr(producer_checks, "RECENT", timedelta(days=recent))
    shop.commit(10, insert("orders", id=1, note="first"))
    shop.run()
    day = producer_checks._landed_before(step_of(shop.pipeline, shop.warehouse, "r").paths, 2)
    assert day == datetime.now(UTC).date()
    monkeypatch.setattr(producer_checks, "_landed_before", lambda *_: day - timedelta(days=before))
    again = [*shop.rows_of(20, update("orders", {"id": 1}, id=1, note="second")), shop.metadata_of(20, orders=1)]
    shop.send(*(message.replace('"x20"', '"x10"') for message in again))
    shop.run()
    assert [code for code, *_ in shop.findings()] == codes


def test_transaction_ids_that_wrap_around_are_different_transactions(shop: Shop) -> None:
    """The same xid at another csn; whole at different times, each with its own rows."""
    shop.commit(10, insert("orders", id=1, note="first"))
    shop.run()
    again = shop.rows_of(20, update("orders", {"id": 1}, id=1, note="second"), truncate("lines"))
    again = [message.replace('"x20"', '"x10"') for message in [*again, shop.metadata_of(20, orders=1, lines=1)]]
    shop.send(*again[:1], again[2])
    shop.run()
    assert shop.shown("orders", "id", "note") == [(1, "first")]
    shop.send(again[1])
    shop.run()
    assert shop.shown("orders", "id", "note") == [(1, "second")]
    assert shop.findings() == [(f.XID_AGAIN, None, None, 20, False)]
