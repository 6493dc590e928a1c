"""Pages of results, and the time as of which they are."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from txloom.config import names
from txloom.errors import ConfigurationError
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import exists, opened, reading
from txloom.storage.delta.recent_files import newest_since
from txloom.storage.delta.sql import instant_literal
from txloom.storage.paths import TablePaths

Row = dict[str, Any]
Given = ParamSpec("Given")
Answer = TypeVar("Answer")
SIZE, LARGEST = 100, 1_000
"""Rows of a page: by default, and at most."""
EXACT = 2**53
"""Below this every whole number is exact as a double."""


@dataclass(frozen=True)
class Page:
    """Some rows of many.

    total: the rows of all pages. number: of this page, from 1. size: the most rows that a page has.
    """

    rows: list[Row]
    total: int
    number: int
    size: int
    as_of: datetime | None

    @property
    def pages(self) -> int:
        """Return how many pages there are; an empty list has one.

        >>> Page([], 101, 1, 100, None).pages
        2
        """
        return max(1, -(-self.total // self.size))


def open_tables(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """Let a function run in one read session, so that it reads one version of each table."""

    @wraps(function)
    def wrapped(*given: Given.args, **named: Given.kwargs) -> Answer:
        with reading():
            return function(*given, **named)

    return wrapped


def limits(number: int, size: int) -> str:
    """Return the SQL limit of a page; raises ConfigurationError for a page or size that cannot be.

    >>> limits(3, 50)
    'limit 50 offset 100'
    """
    if number < 1 or not 1 <= size <= LARGEST:
        raise ConfigurationError(f"page {number} of {size} rows: pages count from 1 and have 1 to {LARGEST} rows")
    return f"limit {size} offset {(number - 1) * size}"


def sliced(rows: list[Row], number: int, size: int, as_of: datetime | None) -> Page:
    """Return a page of rows that are all in memory."""
    limits(number, size)
    return Page(rows[(number - 1) * size : number * size], len(rows), number, size, as_of)


def last_step(paths: TablePaths) -> datetime | None:
    """Return when a step of the pipeline last ended: its tables are complete as of then; None: no step ever did."""
    path = paths.table(names.LEDGER)
    since = newest_since(opened(path)) if exists(path) else None
    where = "" if since is None else f" where at >= {instant_literal(since)}"
    rows = small_tables.query(path, f"select max(at) as at from t{where}")
    return rows[0]["at"] if rows else None


def plain(value: Any) -> Any:
    """Return a result as JSON values: times in ISO and UTC, decimals as text, bytes in hex.

    Numbers that a browser, or jq, would round become texts too.

    >>> plain({"at": datetime(2026, 1, 2, tzinfo=UTC), "amount": Decimal("1.50"), "raw": b"z"})
    {'at': '2026-01-02T00:00:00+00:00', 'amount': '1.50', 'raw': '7a'}
    >>> plain([2**53 - 1, 2**53, True])
    [9007199254740991, '9007199254740992', True]
    """
    if isinstance(value, Page):
        return {**{each.name: plain(getattr(value, each.name)) for each in fields(value)}, "pages": value.pages}
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(member) for member in value]
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    if (isinstance(value, float) and not math.isfinite(value)) or (isinstance(value, int) and abs(value) >= EXACT):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, date | time | Decimal) else value


def parsed(text: str | None) -> Any:
    """Return the value of a JSON text; None for None and for what is no JSON."""
    try:
        return json.loads(text or "null")
    except ValueError:
        return None
