"""What the source does: the shares, sizes and values that were asked for."""

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from txloom.config import find
from txloom.events.values.scalars import reader
from txloom.generate.workload.changes import Change, Transaction
from txloom.generate.workload.orders import Position, Workload
from txloom.generate.workload.settings import SIZES, Shares, sizes_of
from txloom.generate.workload.source import Source
from txloom.generate.workload.tables import AUDIT, TABLES, WATCHED, Row

PIPELINE = find("orders")


def played(count: int, *, sizes: str = SIZES, shares: Shares | None = None, large: int = 0) -> list[Transaction]:
    """Play some transactions."""
    begin = Position(0, 1000, 0, 1_767_225_600_000_000)
    workload = Workload(3, Source(), begin, sizes_of(sizes), shares or Shares(), 50_000)
    return list(workload.transactions(count, large))


def changes(transactions: list[Transaction]) -> list[Change]:
    """Return all changes of transactions."""
    return [change for transaction in transactions for change in transaction.changes]


def test_the_tables_are_those_of_the_shipped_example() -> None:
    declared = {table.name: (table.source, table.column_names, table.key) for table in PIPELINE.tables}
    assert declared == {table.name: (f"PUBLIC.{table.name.upper()}", table.columns, table.key) for table in WATCHED}
    assert PIPELINE.source.ignored_tables == (f"PUBLIC.{AUDIT.name.upper()}",)
    assert all(len(table.types) == len(table.columns) for table in TABLES.values())


def test_every_value_is_of_its_declared_type() -> None:
    readers = {table.name: [reader(column.type) for column in table.columns] for table in PIPELINE.tables}
    for change in changes(played(400)):
        if change.after is not None and change.table is not AUDIT:
            for read, value in zip(readers[change.table.name], change.after, strict=True):
                assert value is None or read(value) is not None or value == ""


@pytest.mark.parametrize(
    ("sizes", "allowed"),
    [("1", {1}), ("8", {8}), ("2-5", {2, 3, 4, 5}), ("1:1,100:1", {1, 100}), ("70", {70})],
)
def test_transactions_have_the_sizes_that_were_asked_for(sizes: str, allowed: set[int]) -> None:
    sizes_made = {len(each.changes) for each in played(150, sizes=sizes, shares=Shares(0.2, 0.2, 0.01, 0))}
    assert sizes_made == allowed


def test_sizes_are_taken_by_their_weights() -> None:
    counted = Counter(len(each.changes) for each in played(2000, sizes="1:70,2:30", shares=Shares(empty=0)))
    assert 0.65 < counted[1] / counted.total() < 0.75


def test_the_large_transaction_is_the_one_in_the_middle() -> None:
    sizes = [len(each.changes) for each in played(31, large=4321)]
    assert sizes[15] == 4321 and max(sizes[:15] + sizes[16:]) <= 200


def test_large_transactions_are_copied_in() -> None:
    (large,) = played(1, large=1000)
    lsns = large.lsns()
    assert len(set(lsns)) < 200 and lsns == sorted(lsns) and large.lsn < lsns[0] and lsns[-1] < large.csn


def moved(change: Change) -> bool:
    """Tell whether a change gives a row another key."""
    if change.before is None or change.after is None:
        return False
    return change.table.key_of(change.before) != change.table.key_of(change.after)


KINDS: dict[str, Callable[[Change], bool]] = {
    "deletes": lambda change: change.op == "D",
    "key_changes": moved,
    "truncates": lambda change: change.op == "T",
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_no_share_never_happens_and_what_has_more_is_more(kind: str) -> None:
    none, some, much = (
        sum(map(KINDS[kind], changes(played(400, shares=Shares(**{**NOTHING, kind: share})))))
        for share in (0.0, 0.05, 0.4)
    )
    assert none == 0 < some < much


NOTHING: dict[str, float] = {"deletes": 0, "key_changes": 0, "truncates": 0, "empty": 0}


def test_shares_are_shares_of_statements() -> None:
    shares = Shares(**{**NOTHING, "deletes": 0.2})
    counted = Counter(change.op for change in changes(played(4000, sizes="1", shares=shares)))
    assert 0.15 < counted["D"] / counted.total() < 0.25


def test_some_transactions_are_empty() -> None:
    assert 0.2 < sum(not each.changes for each in played(500, shares=Shares(empty=0.3))) / 500 < 0.4


def test_keys_are_deleted_and_used_again_and_change_in_chains() -> None:
    transactions = played(800, shares=Shares(0.2, 0.2))
    again, chains, several = 0, 0, 0
    for transaction in transactions:
        orders = [change for change in transaction.changes if change.table.name == "orders"]
        deleted = {change.before[0] for change in orders if change.op == "D" and change.before}
        again += sum(change.op == "I" and change.after is not None and change.after[0] in deleted for change in orders)
        moves = {
            change.before[0]: change.after[0] for change in orders if moved(change) and change.before and change.after
        }
        chains += sum(new in moves for new in moves.values())
        several += len(orders) > len({(change.after or change.before or ())[0] for change in orders})
    assert again > 10 and chains > 10 and several > 50


def test_orders_exchange_their_keys() -> None:
    swaps = 0
    for transaction in played(600, shares=Shares(key_changes=0.3)):
        names = {str(row[0]): str(row[1]) for row in firsts(transaction)}
        now = dict(names)
        for change in transaction.changes:
            if change.table.name == "orders" and moved(change) and change.before and change.after:
                now[str(change.after[0])] = str(change.after[1])
        swaps += any(
            now.get(a) == b_ref and now.get(b) == a_ref
            for a, a_ref in names.items()
            for b, b_ref in names.items()
            if a < b
        )
    assert swaps > 5


def firsts(transaction: Transaction) -> list[Row]:
    """Return the orders of a transaction as they were before it."""
    first_rows: dict[str | None, Row] = {}
    born: set[str | None] = set()
    for change in transaction.changes:
        if change.table.name == "orders":
            if change.before is not None and change.before[0] not in born:
                first_rows.setdefault(change.before[0], change.before)
            if change.after is not None:
                born.add(change.after[0])
    return list(first_rows.values())


def test_versions_count_the_updates_of_a_row() -> None:
    for change in changes(played(300)):
        if "version" in change.table.columns and change.after is not None:
            position = change.table.columns.index("version")
            before = int(change.before[position] or 0) if change.before is not None else 0
            assert int(change.after[position] or 0) == before + 1


def images(table: str) -> list[dict[str, Any]]:
    """Return all new rows of a table in a workload of some size."""
    with_image = [change for change in changes(played(1500)) if change.table.name == table and change.after is not None]
    return [dict(zip(change.table.columns, change.after or (), strict=True)) for change in with_image]


def test_values_are_hostile_large_and_far_away() -> None:
    orders, lines, details, attachments = (
        images(name) for name in ("orders", "order_line_items", "order_details", "order_attachments")
    )
    dates = {row["order_date"] for row in orders}
    assert min(dates) < "1900" and max(dates) == "9999-12-31" and {"1969-12-31", "2100-01-01"} <= dates
    assert min(row["order_ts"] for row in orders) < "1970" < "2262" < max(row["order_ts"] for row in orders)
    assert any(int(row["order_id"]) > 2**53 for row in orders) and any(
        int(row["line_item_id"]) > 2**53 for row in lines
    )
    assert {str(2**63 - 1), str(-(2**63))} <= {row["big"] for row in attachments}
    notes = {row["notes"] for row in orders}
    assert {None, "", "null", "\\N", "\u202eRTL", '{"id":2}{"id":3}', "line1\nline2\ttab"} <= notes
    assert max(len(row["unit_rate"] or "") for row in attachments) == 40
    digits = [len(Decimal(row["item_amount"]).as_tuple().digits) for row in lines if row["item_amount"] is not None]
    assert max(digits) == 18 and any(row["item_amount"] is None for row in lines)
    assert any(str(row["item_amount"]).startswith("-") for row in lines)
    assert any(Decimal(str(float(row["total_amount"]))) != Decimal(row["total_amount"]) for row in orders)
    assert any(len(row["address"] or "") > 2000 for row in details)


def test_large_values_are_left_alone_by_updates_and_key_changes() -> None:
    left, under_another_key = 0, 0
    for change in changes(played(2000, shares=Shares(key_changes=0.2))):
        if change.op == "U" and change.before is not None and change.after is not None:
            is_left_out = bool(change.table.left_out(change.before, change.after))
            left += is_left_out
            under_another_key += is_left_out and moved(change)
    assert left > under_another_key > 10


def test_truncates_tell_the_rows_that_they_took() -> None:
    truncates = [change for change in changes(played(1500, shares=Shares(truncates=0.01))) if change.op == "T"]
    assert {change.table.name for change in truncates} == {"order_attachments", "promo_uses", "promo_codes"}
    assert all(change.before is None and change.after is None for change in truncates)
    assert sum(len(change.removed) for change in truncates) > 50
