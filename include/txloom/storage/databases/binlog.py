"""What lies between two positions of a binlog: whether it has changes of some tables."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from txloom.events.debezium.positions import binlog_position

AT_ONCE = 2_000
"""Events of one query."""
COMPRESSED = "Transaction_payload"
"""A whole transaction, in which MySQL compressed the others of its events."""
WITHIN = ("Query", "Write_rows", "Update_rows", "Delete_rows", COMPRESSED)
"""How the kinds of events begin at which the csn of a transaction can lie."""
ENDS = ("Xid", "XA_prepare", COMPRESSED)
COMMITS = ("COMMIT", "ROLLBACK")
MAPPED = re.compile(r"table_id: \d+ \((.*)\)")
TRUNCATES = re.compile(r"\btruncate\b", re.IGNORECASE)
Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""Runs a statement and returns its rows."""


class Event(NamedTuple):
    """An event of the binlog; position: as a csn has it."""

    position: int
    kind: str
    info: str


def has_changes(ask: Ask, low: int, high: int, tables: Collection[str]) -> bool:
    """Return whether transactions between two csns changed some tables.

    That a transaction in which the first csn lies is known is what a lake says that shows everything up to there.

    Args:
        ask: asks the server; the user may read its binlog.
        low: a csn of a transaction, or the position at which one begins.
        high: the position behind the last transaction.
        tables: with their schemas, in lower case.
    """
    if low >= high:
        return False
    inside = None
    for event in _events(ask, low, high):
        if inside is None:
            inside = event.kind.startswith(WITHIN)
        if inside:
            inside = not _ends(event)
        elif _touches(event, tables):
            return True
    return inside is None


def _ends(event: Event) -> bool:
    """Return whether a transaction ends with an event; TRUNCATE is one by itself."""
    ends = event.info in COMMITS or TRUNCATES.search(event.info) is not None
    return event.kind in ENDS or (event.kind.startswith("Query") and ends)


def _touches(event: Event, tables: Collection[str]) -> bool:
    if event.kind == "Table_map":
        match = MAPPED.match(event.info)
        return match is None or match[1].lower() in tables
    if event.kind.startswith("Query"):
        return TRUNCATES.search(event.info) is not None
    return event.kind == COMPRESSED


def _events(ask: Ask, low: int, high: int) -> Iterator[Event]:
    """Yield the events from a position up to another one, file by file; of a compressed transaction the whole alone."""
    files = [
        (position, row[0])
        for row in ask("show binary logs", ())
        if (position := binlog_position(row[0], 0)) is not None
    ]
    for start, file in files:
        if start >> 40 < low >> 40 or start > high:
            continue
        at = max(low - start, 4)
        while rows := ask(f"show binlog events in %s from {at} limit {AT_ONCE}", (file,)):
            for _, position, kind, _, end, info in rows:
                if start + position >= high:
                    return
                if position == end:
                    continue  # It lies within a compressed transaction, and is not to be had without the rest of it.
                yield Event(start + position, kind, info)
            if rows[-1][4] <= at:
                break
            at = rows[-1][4]
