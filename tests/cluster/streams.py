"""What wal2json and Debezium said of a source, as the transactions that it committed."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from oracle.capture import Event, Image, Transaction
from oracle.declarations import TABLES, Table
from oracle.state import Source

BY_NAME = {table.source.lower(): table for table in TABLES.values()}
UNCHANGED = "__debezium_unavailable_value"
OLD_KEY, NEW_KEY = "__debezium.oldkey", "__debezium.newkey"
DAY, MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
BEGIN = datetime.fromisoformat("1970-01-01")
Row = dict[str, Any]


@dataclass(frozen=True)
class Committed:
    """The transactions of a source in the order of their commits."""

    transactions: list[Transaction]
    tables: Mapping[str, Table]


def source_of(transactions: Iterable[tuple[str, int, list[Event]]]) -> Source:
    """Return the source that committed these: xid, csn and events of each."""
    whole = list[Transaction]()
    for xid, csn, events in transactions:
        counts = {name: sum(event.table == name for event in events) for name in {event.table for event in events}}
        whole.append(Transaction(xid, csn, counts, tuple(events)))
    return Source(Committed(sorted(whole, key=lambda each: each.csn), TABLES))


def by_wal2json(lines: Iterable[str]) -> Source:
    """Return the source of a stream of wal2json, from empty tables on."""
    transactions = list[tuple[str, int, list[Event]]]()
    for line in lines:
        said = json.loads(line, parse_int=str, parse_float=str)
        if said["action"] == "B":
            high, low = said["lsn"].split("/")
            transactions.append((said["xid"], int(high, 16) << 32 | int(low, 16), []))
        elif said["action"] == "C":
            assert said["xid"] == transactions[-1][0]
        elif table := BY_NAME.get(f"{said['schema']}.{said['table']}"):
            xid, csn, events = transactions[-1]
            images = {name: _columns(said[name]) if name in said else None for name in ("identity", "columns")}
            named = (table.name, said["action"], images["identity"], images["columns"])
            events.append(Event(xid, csn, len(events), *named))
    return source_of(transactions)


def _columns(named: list[Row]) -> Image:
    return {each["name"]: _plain(each["value"]) for each in named}


def by_debezium(records: Iterable[Row]) -> Source:
    """Return the source of records as they lay in Kafka: a snapshot first, then what came after it, some of it twice.

    The id of an event names the transaction and the event's position; that of its END the position of the commit.
    """
    said = [
        json.loads(each["value"], parse_float=str) | {"headers": dict(each["headers"])}
        for each in records
        if each["value"] is not None
    ]
    commits = [each["id"].split(":") for each in said if each.get("status") == "END"]
    transactions = {xid: (xid, int(csn), list[Event]()) for xid, csn in commits}
    changes = {_place(number, each): each for number, each in enumerate(said) if "op" in each}
    for (xid, _), change in sorted(changes.items()):
        if NEW_KEY in change["headers"]:
            continue  # what its other half says is the whole of a change of a key
        _, csn, events = transactions.setdefault(xid, (xid, change["source"]["lsn"], []))
        events.append(_event(change, xid, csn, len(events)))
    return source_of(transactions.values())


def _place(number: int, change: Row) -> tuple[str, int]:
    """Return the transaction of a change and its place in it; a restarted connector repeats both."""
    within = change["transaction"]
    return (within["id"].split(":")[0], within["total_order"]) if within else ("snapshot", number)


def _event(change: Row, xid: str, csn: int, place: int) -> Event:
    table = BY_NAME[f"{change['source']['schema']}.{change['source']['table']}"]
    before, after = (_image(change.get(name), table) for name in ("before", "after"))
    op = {"r": "I", "c": "I", "u": "U", "d": "D", "t": "T"}[change["op"]]
    if OLD_KEY in change["headers"]:
        op, before = "U", _image(json.loads(change["headers"][OLD_KEY]), table)
    return Event(xid, csn, place, table.name, op, before, after)


def _image(values: Row | None, table: Table) -> Image | None:
    if values is None:
        return None
    known = {name: value for name, value in values.items() if value != UNCHANGED}
    return {name: None if value is None else _text(value, table.columns[name]) for name, value in known.items()}


def _text(value: Any, declared: str) -> str | None:
    """Write a value of Debezium's as PostgreSQL prints it."""
    if declared.startswith("array<"):
        return "{" + ",".join(_element(each) for each in value) + "}"
    return _WRITTEN.get(declared, _plain)(value)


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    quoted = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _plain(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _time(microseconds: int) -> str:
    minutes, rest = divmod(microseconds, 60_000_000)
    seconds = f"{rest / 1_000_000:09.6f}".rstrip("0").rstrip(".")
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds}"


_WRITTEN: dict[str, Callable[[Any], str | None]] = {
    "binary": lambda value: base64.b64decode(value).hex(),
    "date": lambda value: (BEGIN.date() + value * DAY).isoformat(),
    "time": _time,
    "timestamp": lambda value: (BEGIN + value * MICROSECOND).isoformat(),
}
