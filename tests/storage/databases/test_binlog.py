"""What lies between a csn and a position of the binlog: as MySQL 8 and MariaDB show their events."""

from collections.abc import Sequence
from typing import Any

import pytest

from txloom.storage.databases.binlog import has_changes

Row = tuple[str, int, str, int, int, str]
FILES = 2**40
ORDERS = {"shop.orders"}


def binlog_of(*files: Sequence[tuple[int, str, str]], at_once: int = 2) -> Any:
    """Return a server with these events: position, kind, info; an event ends where the next one begins."""

    def ask(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        if sql == "show binary logs":
            return [(f"binlog.{number:06}", 10_000) for number in range(1, len(files) + 1)]
        start = int(sql.split("from ")[1].split(maxsplit=1)[0])
        events = files[int(values[0][-6:]) - 1]
        ends = [*(position for position, _, _ in events[1:]), 10_000][: len(events)]
        rows = [(values[0], at, kind, 1, end, info) for (at, kind, info), end in zip(events, ends, strict=True)]
        if start not in (4, *(at for at, _, _ in events)):
            return [row for row in rows if row[1] > start][:at_once]
        # What lies in a compressed transaction is shown with it alone.
        return [row for row in rows if row[1] >= start and row[1:5:3] != (start, start)][:at_once]

    return ask


def of_mysql(at: int, table: str, kind: str = "Anonymous_Gtid") -> list[tuple[int, str, str]]:
    return [
        (at, kind, "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'"),
        (at + 10, "Query", "BEGIN"),
        (at + 20, "Table_map", f"table_id: 90 ({table})"),
        (at + 30, "Write_rows", "table_id: 90 flags: STMT_END_F"),
        (at + 40, "Xid", "COMMIT /* xid=12 */"),
    ]


def compressed(at: int, table: str) -> list[tuple[int, str, str]]:
    """Return a compressed transaction: what lies in it stands where it ends, as MySQL 9.7 shows it."""
    inner = [("Query", "BEGIN"), ("Table_map", f"table_id: 90 ({table})"), ("Write_rows", ""), ("Xid", "COMMIT")]
    whole = [(at, "Gtid", ""), (at + 10, "Transaction_payload", "compression='ZSTD', decompressed_size=182 bytes")]
    return [*whole, *((at + 50, *each) for each in inner)]


HEAD = [(4, "Format_desc", "Server ver: 8.0.40, Binlog ver: 4"), (50, "Previous_gtids", "")]
TWO = [*HEAD, *of_mysql(100, "shop.orders"), *of_mysql(200, "shop.other"), (300, "Rotate", "binlog.000002;pos=4")]


@pytest.mark.parametrize("csn", [110, 130], ids=["where the transaction begins", "the largest position of its rows"])
def test_the_transaction_that_a_csn_belongs_to_is_known(csn: int) -> None:
    ask = binlog_of(TWO)
    assert not has_changes(ask, FILES + csn, FILES + 300, ORDERS)
    assert has_changes(ask, FILES + csn, FILES + 300, {"shop.other"})


def test_a_transaction_that_begins_at_the_csn_of_a_snapshot_is_not_known() -> None:
    assert has_changes(binlog_of(TWO), FILES + 100, FILES + 200, ORDERS)
    assert not has_changes(binlog_of(TWO), FILES + 200, FILES + 300, ORDERS)


@pytest.mark.parametrize("at_once", [1, 2, 3, 50])
def test_a_compressed_transaction_is_one_in_which_a_csn_lies_or_may_be_any(at_once: int) -> None:
    ask = binlog_of([*HEAD, *compressed(100, "shop.orders"), *compressed(150, "shop.other")], at_once=at_once)
    assert not has_changes(ask, FILES + 110, FILES + 150, ORDERS)
    assert has_changes(ask, FILES + 110, FILES + 200, ORDERS), "what lies in the second one is not looked at"
    assert has_changes(ask, FILES + 100, FILES + 150, {"shop.other"})
    ask = binlog_of([*HEAD, *compressed(100, "shop.orders"), *of_mysql(150, "shop.other")], at_once=at_once)
    assert not has_changes(ask, FILES + 110, FILES + 200, ORDERS)
    assert has_changes(ask, FILES + 110, FILES + 200, {"shop.other"})


def test_nothing_behind_the_position_counts() -> None:
    assert not has_changes(binlog_of(TWO), FILES + 130, FILES + 200, {"shop.other"})


@pytest.mark.parametrize("kind", ["Rotate", "Stop", "Binlog_checkpoint", "Start_encryption", "Heartbeat"])
def test_what_lies_between_transactions_hides_none(kind: str) -> None:
    """The position behind the last transaction is where the log goes on, with whatever it is."""
    events = [*HEAD, (100, kind, ""), *of_mysql(120, "shop.orders")]
    assert has_changes(binlog_of(events), FILES + 100, FILES + 200, ORDERS)
    files = [*HEAD, (100, kind, "")], [*HEAD, *of_mysql(100, "shop.orders")]
    assert has_changes(binlog_of(*files), FILES + 100, 2 * FILES + 200, ORDERS)


def test_nothing_lies_between_a_position_and_itself() -> None:
    assert not has_changes(binlog_of(TWO), FILES + 300, FILES + 300, ORDERS)
    assert not has_changes(binlog_of([]), FILES + 130, FILES + 130, ORDERS)


def test_a_savepoint_ends_no_transaction() -> None:
    begun, rest = of_mysql(100, "shop.orders")[:-1], of_mysql(200, "shop.orders")[2:]
    events = [*HEAD, *begun, (150, "Query", "SAVEPOINT `a`"), *rest, *of_mysql(300, "shop.other")]
    assert not has_changes(binlog_of(events), FILES + 110, FILES + 400, ORDERS)


def test_the_next_file_is_read_too() -> None:
    for table, changed in (("shop.orders", True), ("shop.other", False)):
        ask = binlog_of(TWO, [*HEAD, *of_mysql(100, table, "Gtid")])
        assert has_changes(ask, FILES + 130, 2 * FILES + 150, ORDERS) is changed
    assert not has_changes(binlog_of(TWO, [*HEAD, *of_mysql(100, "shop.orders")]), FILES + 130, 2 * FILES + 100, ORDERS)


@pytest.mark.parametrize(
    ("kind", "info", "changed"),
    [
        ("Query", "use `shop`; truncate orders", True),
        ("Query", "use `shop`; create table other (id int)", False),
        ("Transaction_payload", "compression='ZSTD'", True),
        ("Table_map", "table_id: 90 (Shop.Orders)", True),
        ("Table_map", "not understood", True),
    ],
)
def test_what_may_change_a_table_counts(kind: str, info: str, changed: bool) -> None:
    events = [*HEAD, *of_mysql(100, "shop.other"), (200, "Gtid", "GTID 0-1-7"), (210, kind, info)]
    assert has_changes(binlog_of(events), FILES + 130, FILES + 300, ORDERS) is changed


def test_a_truncate_that_the_lake_shows_is_known() -> None:
    events = [
        *HEAD,
        (100, "Gtid", "GTID 0-1-7"),
        (110, "Query", "use `shop`; truncate orders"),
        *of_mysql(200, "shop.o"),
    ]
    assert not has_changes(binlog_of(events), FILES + 110, FILES + 300, ORDERS)


def test_where_nothing_can_be_read_something_may_have_changed() -> None:
    assert has_changes(binlog_of([]), FILES + 130, FILES + 300, ORDERS)
    assert has_changes(binlog_of(), 7 * FILES, 8 * FILES, ORDERS)
