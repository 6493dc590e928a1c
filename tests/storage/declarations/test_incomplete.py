"""What the finding of an incomplete history says, so that an operator knows what to do about this table now."""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from steps.settling.edited_shop import ORDERS, EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill, incomplete, without_messages
from txloom.config import names
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.delta import small_tables
from txloom.storage.system_tables import FINDINGS
from txloom.storage.views.pipeline import problems

MISSING = "lines_changes: of 5 transactions (csn 110 to 150), messages are not kept any more, or cannot be read"
EVIDENCE = f"{MISSING}; it has every change from csn 151 on; cuts leave out lines"
LOAD = (
    "oad a snapshot of lines as of csn 150 or a later one: jobs/load_snapshot.py --pipeline shop --table lines --path "
)
LOAD += "FOLDER --csn CSN, or the DAG shop_load"
CLOSES = "When the stream reaches the csn of the snapshot, cuts show the table"
REFUSES = "read.as_of refuses every csn below that of the snapshot."


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    return EditedShop(tmp_path)


def listed(shop: EditedShop) -> list[dict[str, Any]]:
    """Return the open findings as the page and the terminal list them."""
    return problems.open_findings(shop.lake.pipeline, shop.lake.warehouse).rows


def test_the_finding_says_from_which_csn_on_and_up_to_which_rows_are_missing(shop: EditedShop) -> None:
    without_messages(shop)
    (finding,) = incomplete(shop)
    assert (finding["since_csn"], finding["evidence"]) == (110, EVIDENCE)
    assert shop.states_of()["lines_changes", "lines"].newest.since_csn == 151


def test_the_hint_says_first_which_snapshot_to_load_and_how(shop: EditedShop) -> None:
    without_messages(shop)
    (finding,) = incomplete(shop)
    assert finding["hint"] == f"L{LOAD}. {CLOSES}, and this finding closes. After that, {REFUSES}"
    assert [row["hint"] for row in listed(shop)] == [finding["hint"]]


def test_the_merge_that_opens_a_finding_counts_it(shop: EditedShop) -> None:
    without_messages(shop)
    shop.orders(5)
    shop.run()
    merges = [row for row in shop.lake.rows("ledger") if row["step"] == "merge_current"]
    merges.sort(key=lambda row: row["at"])
    assert [dict(row["counts"])["findings"] for row in merges] == [0, 0, 1, 0]


def test_a_finding_is_recorded_once_and_closes_with_a_load(shop: EditedShop) -> None:
    without_messages(shop)
    for number in (5, 6):
        shop.orders(number)
        shop.run()
    assert len(shop.lake.rows("findings")) == 1
    shop.load("lines")
    assert incomplete(shop) == []
    assert [row["status"] for row in shop.lake.rows("findings")].count("closed") == 1


@pytest.mark.parametrize("by_load", [True, False], ids=["load", "removal"])
def test_a_finding_of_an_earlier_version_is_replaced_by_the_present_one_and_closes(
    shop: EditedShop, *, by_load: bool
) -> None:
    """An earlier version showed the last missing csn, and the same hint for every table."""
    without_messages(shop)
    (finding,) = incomplete(shop)
    earlier = {"since_csn": 150, "evidence": f"{MISSING}; cuts leave out lines", "hint": "Load a snapshot."}
    small_tables.overwrite(shop.lake.paths.table(names.FINDINGS), pa.Table.from_pylist([finding | earlier], FINDINGS))
    shop.run()
    shop.orders(5)
    shop.run()
    assert [(row["since_csn"], row["evidence"]) for row in incomplete(shop)] == [(110, EVIDENCE)]
    if by_load:
        shop.load("lines")
    else:
        shop.declare(BOTH, [OF_ORDERS])
        shop.run()
    assert incomplete(shop) == []


@pytest.mark.parametrize("runs_before", [True, False], ids=["after the finding", "before the first cycle"])
def test_a_snapshot_that_does_not_reach_the_last_missing_csn_is_named(shop: EditedShop, *, runs_before: bool) -> None:
    shop.declare(BOTH, [OF_ORDERS])
    fill(shop)
    shop.orders(4)
    shop.run()
    shop.forget("lines")
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    if runs_before:
        shop.run()
    shop.lake.step(load_snapshot, shop.lake.session, Snapshot(shop.export("lines", 120), 120))
    shop.run()
    (finding,) = incomplete(shop)
    says = "the snapshot that was loaded as of csn 120 does not reach csn 160"
    assert finding["evidence"].endswith(f"; {says}")
    shop.load("lines")
    assert incomplete(shop) == []
    assert shop.shown("lines") == shop.source("lines")


def test_an_earlier_load_is_not_named(shop: EditedShop) -> None:
    shop.declare(BOTH, [OF_LINES])
    fill(shop)
    shop.load("orders", 120)
    shop.forget()
    shop.declare(BOTH, [OF_LINES, OF_ORDERS])
    shop.run()
    (finding,) = incomplete(shop)
    assert "does not reach" not in finding["evidence"]


def test_the_hint_says_to_wait_where_the_missing_rows_may_still_come(tmp_path: Path) -> None:
    shop = EditedShop(tmp_path, patience="1s")
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    shop.orders(1)
    shop.run()
    held = shop.commit(
        ("I", "orders", {"id": 8, "total": 8}), ("I", "lines", {"id": 80, "o_id": 8, "q": 8}), late=["lines"]
    )
    shop.run()
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    shop.run()
    assert incomplete(shop) == []
    time.sleep(1.1)
    shop.orders(9)
    shop.run()
    (finding,) = incomplete(shop)
    wait = "If the source can still send the missing rows, wait: the cycle that takes them completes the table."
    load = LOAD.replace("150", "120")
    assert finding["hint"] == f"{wait} Otherwise, l{load}. {CLOSES}, this finding closes, and {REFUSES}"
    for topic, messages in held.items():
        shop.send(topic, *messages)
    shop.run()
    assert incomplete(shop) == []
    assert shop.shown("lines") == shop.source("lines")
