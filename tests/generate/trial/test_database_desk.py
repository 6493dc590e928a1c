"""The order desk at a real database: what it commits holds together, and a desk that is killed goes on."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from services.postgres import Postgres
from txloom.generate.trial.database_desk import OrderDesk, statement
from txloom.generate.trial.real_services import DESK, SCHEMA
from txloom.generate.workload.changes import Change
from txloom.generate.workload.tables import ATTACHMENTS, AUDIT, CODES, LINES, USES, AttachmentRow, Row

NOW = 1_780_000_000_000_000
WRONG_TOTALS = """
    SELECT count(*) FROM orders o WHERE total_amount <>
    (SELECT coalesce(sum(item_amount), 0) FROM order_line_items i WHERE i.order_id = o.order_id)
"""
ATTACHED: Row = AttachmentRow("1", "2", None, None, "00ff", *[None] * 10)
LINE: Row = ("7", "1", "1", "PROD-1", "1.0000", None, None, "EUR", "gift")


@pytest.mark.parametrize(
    ("change", "sql", "values"),
    [
        (Change(USES, "T", None, None), "TRUNCATE promo_uses", []),
        (
            Change(USES, "D", ("P1", "5", "1.0000"), None),
            "DELETE FROM promo_uses WHERE code = %s AND order_id = %s",
            ["P1", "5"],
        ),
        (
            Change(LINES, "U", LINE, (*LINE[:-1], None)),
            "UPDATE order_line_items SET remark = %s WHERE line_item_id = %s",
            [None, "7"],
        ),
        (
            Change(LINES, "U", LINE, ("8", *LINE[1:])),
            "UPDATE order_line_items SET line_item_id = %s WHERE line_item_id = %s",
            ["8", "7"],
        ),
        (
            Change(CODES, "U", ("P1", "1.0000", None), ("P1", "1.0000", None)),
            "UPDATE promo_codes SET code = %s, discount = %s, valid_to = %s WHERE code = %s",
            ["P1", "1.0000", None, "P1"],
        ),
        (
            Change(AUDIT, "I", None, ("1", "ok")),
            "INSERT INTO audit_log (id, what) OVERRIDING SYSTEM VALUE VALUES (%s, %s)",
            ["1", "ok"],
        ),
    ],
)
def test_a_change_is_one_statement_of_the_columns_that_change(change: Change, sql: str, values: list[Any]) -> None:
    assert statement(change) == (sql, values)


def test_bytes_are_written_as_postgresql_reads_them() -> None:
    _, values = statement(Change(ATTACHMENTS, "I", None, ATTACHED))
    assert values[4] == "\\x00ff"


@pytest.fixture
def connection(postgres: Postgres) -> Iterator[Any]:
    postgres.fresh_database("desk", SCHEMA.read_text() + DESK)
    address = f"postgresql://{postgres.user}@{postgres.address}/desk"
    with closing(psycopg2.connect(address, options="-c TimeZone=UTC")) as opened:
        yield opened


def one(connection: Any, sql: str) -> Any:
    with connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def test_what_is_committed_holds_together_also_when_desks_follow_each_other(connection: Any) -> None:
    rows = 0
    for _ in range(3):
        desk = OrderDesk(connection)
        for _ in range(150):
            rows += desk.commit(NOW + desk.number * 1_000_000)
            assert one(connection, WRONG_TOTALS) == 0
    assert OrderDesk(connection).number == 450
    assert rows > 1_000
    for table in ("orders", "order_details", "order_line_items", "order_attachments", "promo_codes", "promo_uses"):
        assert one(connection, f"SELECT count(*) FROM {table}") > 0, table


def test_a_transaction_that_fails_leaves_nothing_and_the_next_desk_makes_it_again(connection: Any) -> None:
    desk = OrderDesk(connection)
    for _ in range(20):
        desk.commit(NOW)
    before = one(connection, "SELECT count(*) FROM orders")
    with connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE order_entry.position ADD CHECK (number < 21)")
    with pytest.raises(psycopg2.errors.CheckViolation):
        desk.commit(NOW)
    assert one(connection, "SELECT count(*) FROM orders") == before
    with connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE order_entry.position DROP CONSTRAINT position_number_check")
    again = OrderDesk(connection)
    assert again.number == 20
    again.commit(NOW)
    assert one(connection, "SELECT number FROM order_entry.position") == 21


def test_rows_that_others_plant_or_delete_stop_no_desk(connection: Any) -> None:
    """`make break` does both."""
    desk = OrderDesk(connection)
    for _ in range(40):
        desk.commit(NOW)
    with connection, connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("INSERT INTO order_line_items VALUES (900000001, 900000001, 1, 'PROD-0', 1, 1, 1, 'EUR')")
        cursor.execute("DELETE FROM order_details")
    for _ in range(40):
        desk.commit(NOW)
    assert OrderDesk(connection).number == 80
