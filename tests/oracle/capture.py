"""Read delivered messages into source transactions: distinct events by position, and the counts that metadata names."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from oracle.declarations import TABLES, Table

SAMPLE = Path(__file__).resolve().parents[2] / "include" / "sample"
METADATA_TOPIC = "dev.transaction_metadata_json"

Image = dict[str, str | None]
Key = tuple[str, ...]
Message = tuple[str, str]


@dataclass(frozen=True)
class Event:
    """One change of one watched row; a column missing from an image is unknown or unchanged, never null."""

    xid: str
    csn: int
    pos: int
    table: str
    op: str
    before: Image | None
    after: Image | None


@dataclass(frozen=True)
class Transaction:
    """What has been seen of a source transaction; `expected` is None until its metadata came."""

    xid: str
    csn: int
    expected: dict[str, int] | None
    events: tuple[Event, ...]

    @property
    def received(self) -> dict[str, int]:
        """Count the distinct events per watched table."""
        counts: dict[str, int] = {}
        for event in self.events:
            counts[event.table] = counts.get(event.table, 0) + 1
        return counts

    @property
    def whole(self) -> bool:
        """Tell whether metadata came and every watched table has exactly the events it names."""
        return self.expected is not None and self.received == self.expected


@dataclass
class Capture:
    """Everything heard so far; messages may be taken in any order and any number of times."""

    tables: Mapping[str, Table] = field(default_factory=lambda: TABLES)
    rows: int = 0
    metadata: int = 0
    duplicate_rows: int = 0
    duplicate_metadata: int = 0
    unwatched_rows: int = 0
    highest_metadata_csn: int | None = None
    _csns: dict[str, int] = field(default_factory=dict)
    _expected: dict[str, dict[str, int]] = field(default_factory=dict)
    _events: dict[str, dict[int, Event]] = field(default_factory=dict)

    @property
    def transactions(self) -> list[Transaction]:
        """Return every transaction heard of, by metadata or by a watched row, in commit order."""
        transactions = [self.transaction(xid) for xid in self._csns]
        return sorted(transactions, key=lambda transaction: transaction.csn)

    def transaction(self, xid: str) -> Transaction:
        """Return what has been seen of one transaction."""
        events = sorted(self._events.get(xid, {}).values(), key=lambda event: event.pos)
        return Transaction(xid, self._csns[xid], self._expected.get(xid), tuple(events))

    def copy(self) -> Capture:
        """Return a capture of what was heard until now; what either takes later does not show in the other."""
        events = {xid: dict(known) for xid, known in self._events.items()}
        return replace(self, _csns=dict(self._csns), _expected=dict(self._expected), _events=events)

    def take(self, message: str) -> None:
        """Take one message, a row event or a transaction's metadata."""
        content = json.loads(message, parse_int=str, parse_float=str)
        if "op_type" in content:
            self._take_row(content)
        else:
            self._take_metadata(content)

    def _take_row(self, content: dict[str, Any]) -> None:
        self.rows += 1
        table = next((table for table in self.tables.values() if table.source == content["table"]), None)
        if table is None:
            self.unwatched_rows += 1
            return
        event = Event(
            xid=content["xid"],
            csn=int(content["csn"]),
            pos=int(content["pos"]),
            table=table.name,
            op=content["op_type"],
            before=_image(content.get("before")),
            after=_image(content.get("after")),
        )
        self._hear_of(event.xid, event.csn)
        known = self._events.setdefault(event.xid, {}).setdefault(event.pos, event)
        if known is not event:
            _require(known == event, f"transaction {event.xid}, pos {event.pos}: two payloads under one identity")
            self.duplicate_rows += 1

    def _take_metadata(self, content: dict[str, Any]) -> None:
        self.metadata += 1
        xid, csn = content["xid"], int(content["csn"])
        self._hear_of(xid, csn)
        short_names = {table.source.split(".")[-1]: table.name for table in self.tables.values()}
        expected = {
            short_names[part["data_collection"]]: int(part["event_count"])
            for part in content["data_collections"]
            if part["data_collection"] in short_names
        }
        if xid in self._expected:
            _require(self._expected[xid] == expected, f"transaction {xid}: two counts in its metadata")
            self.duplicate_metadata += 1
        self._expected[xid] = expected
        self.highest_metadata_csn = max(csn, self.highest_metadata_csn or csn)

    def _hear_of(self, xid: str, csn: int) -> None:
        _require(self._csns.setdefault(xid, csn) == csn, f"transaction {xid} has two commit positions")


def arrivals(folder: Path = SAMPLE / "arrivals") -> list[Path]:
    """Return the folders of the arrivals, in the order of arrival."""
    return sorted(path for path in folder.iterdir() if path.is_dir())


def messages(arrival: Path) -> Iterator[Message]:
    """Yield topic and message, in the order of delivery within each topic."""
    for path in sorted(arrival.glob("*/*.jsonl*")):
        for line in lines(path):
            yield path.parent.name, line


def lines(path: Path) -> list[str]:
    """Return the lines of a file, compressed or not; only a line feed ends a line."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode().split("\n")[:-1]


def read(folders: Iterable[Path], tables: Mapping[str, Table] = TABLES) -> Capture:
    """Read the arrivals in these folders."""
    capture = Capture(tables)
    for folder in folders:
        for _, message in messages(folder):
            capture.take(message)
    return capture


def truth(folder: Path = SAMPLE / "truth", tables: Mapping[str, Table] = TABLES) -> dict[str, dict[Key, Image]]:
    """Return the true final state that the source itself reported, as text."""
    state: dict[str, dict[Key, Image]] = {}
    for name, table in tables.items():
        rows = [json.loads(line) for line in lines(folder / f"{name}.jsonl.gz")]
        state[name] = {tuple(row[column] for column in table.key): row for row in rows}
        _require(len(state[name]) == len(rows), f"{name}: one key names two rows")
    return state


def _image(values: Mapping[str, Any] | None) -> Image | None:
    return None if values is None else {name.lower(): _text(value) for name, value in values.items()}


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    _require(value is None or isinstance(value, str), f"not a scalar: {value!r}")
    return None if value is None else str(value)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
