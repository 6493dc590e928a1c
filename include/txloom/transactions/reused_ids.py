"""Which transaction of an id an event is of, where ids come back: PostgreSQL counts its round.

Each lies in the log up to its own csn, which its metadata tells: an event is of the first one that does not end in
front of it.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from txloom.config.identity import AT_POSITION

Event = Mapping[str, Any]
COLUMNS = ("transaction_id", "kind", "csn", "identity")
"""What is looked at of an event."""
Ends = Mapping[str, Sequence[int]]
_AT_POSITION = re.compile(AT_POSITION)


def at(event: Event) -> int:
    """Return up to where an event's transaction lies in the log at least: its csn, or the row's own place; else 0."""
    if event["csn"] is not None:
        return int(event["csn"])
    match = _AT_POSITION.match(event["identity"] or "") if event["kind"] == "row" else None
    return int(match[1]) if match else 0


def is_behind(events: Iterable[Event], end: int) -> bool:
    """Say whether events are of a later transaction than the one of their id that ended at a csn.

    Their metadata tells another csn behind it, or a row lies there; a row that tells a csn of its own says nothing.
    """
    return any(at(each) > end for each in events if each["kind"] == "metadata" or each["csn"] is None)


def ends(events: Iterable[Event]) -> dict[str, list[int]]:
    """Return the csns that metadata tells, by id, in order."""
    csns: dict[str, set[int]] = {}
    for event in events:
        if event["kind"] == "metadata" and event["csn"] is not None:
            csns.setdefault(event["transaction_id"], set()).add(event["csn"])
    return {name: sorted(csns_of) for name, csns_of in csns.items()}


def named(event: Event, ends: Ends) -> tuple[str, int | None]:
    """Return what names an event's transaction: its id, and the csn, None where no metadata told that yet.

    >>> row = {"transaction_id": "7", "kind": "row", "csn": None, "identity": "120:t:c:1"}
    >>> named(row, {"7": [100, 160]}), named(row, {"7": [100]}), named(row, {})
    (('7', 160), ('7', None), ('7', None))
    """
    csns = ends.get(event["transaction_id"], ())
    index = bisect_left(csns, at(event))
    return event["transaction_id"], csns[index] if index < len(csns) else None


def split(events: Sequence[Event]) -> dict[tuple[str, int | None], list[Event]]:
    """Return events by what names their transactions."""
    known, groups = ends(events), dict[tuple[str, int | None], list[Event]]()
    for event in events:
        groups.setdefault(named(event, known), []).append(event)
    return groups


def turns(events: Sequence[Event]) -> list[int]:
    """Return of each event which transaction of its id it is of, counted from 0; 0 where that cannot be told.

    Only where every row of an id says where it lies are its transactions told apart.
    """
    silent = {each["transaction_id"] for each in events if each["kind"] == "row" and not at(each)}
    known = {name: csns for name, csns in ends(events).items() if name not in silent}
    return [bisect_left(known.get(each["transaction_id"], ()), at(each)) for each in events]
