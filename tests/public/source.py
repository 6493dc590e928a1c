"""A source database that public cases play on: statements change tables, a commit tells what GoldenGate sends of it.

It never reads its own messages, so that its state is a second opinion on whoever does.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

from oracle import comparison
from oracle.capture import Image, Message
from oracle.declarations import Aggregate, Table
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from workloads.core import Core, Rows
from workloads.delivery import deliver
from workloads.sources.database import Sent, State
from workloads.sources.shapes import Shape, declaration
from workloads.sources.truth import expected_tables

Row = dict[str, Any]
Key = tuple[Any, ...]
METADATA = "metadata"


def table(name: str, key: str, /, **columns: str) -> Table:
    """Declare a table of the schema APP; the key is the names of its columns with blanks between them."""
    return Table(name, f"APP.{name.upper()}", tuple(key.split()), columns)


@dataclass
class Source:
    """Rows under their keys, and the changes since the last commit."""

    shape: Shape
    csn: int = 100
    pos: int = 0
    rows: dict[str, dict[Key, Row]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = {name: {} for name in self.shape.tables}
        self._state: State = {name: {} for name in self.shape.tables}
        self._events: list[tuple[Table, str, Row | None, Row | None]] = []
        self._absent = cycle(("whole", "key", "nothing"))

    def insert(self, name: str, /, **row: Any) -> None:
        """Insert a row; what is not told of it is null, and the message says so."""
        self.change(name, "I", None, dict.fromkeys(self.shape.tables[name].columns) | row)

    def update(self, name: str, key: Key, /, **changed: Any) -> None:
        """Update a row; the message's `after` is sparse, its `before` whole, the key alone, or left out in turn."""
        old = self.rows[name][key]
        key_values = {column: old[column] for column in self.shape.tables[name].key}
        moves = any(column in changed and changed[column] != value for column, value in key_values.items())
        absent = next(self._absent)
        before = old if absent == "whole" else key_values if absent == "key" or moves else None
        self.change(name, "U", before, key_values | changed, old)

    def delete(self, name: str, key: Key) -> None:
        """Delete a row."""
        self.change(name, "D", self.rows[name][key], None)

    def truncate(self, name: str) -> None:
        """Remove all rows of a table."""
        self.change(name, "T", None, None)

    def change(self, name: str, op: str, before: Row | None, after: Row | None, old: Row | None = None) -> None:
        """Let any change happen; an update of a row that is not there makes one, a delete of one does nothing."""
        declared = self.shape.tables[name]
        if op == "T":
            self.rows[name].clear()
            self._state[name].clear()
        if op in "UD" and (gone := before or old or after):
            self._drop(declared, gone)
        if after is not None:
            row = dict.fromkeys(declared.columns) | (old or {}) | after
            self.rows[name][_key(row, declared)] = row
            self._state[name][tuple(map(str, _key(row, declared)))] = _image(row)
        self._events.append((declared, op, before, after))

    def commit(self, csn: int | None = None) -> Sent:
        """Commit the changes so far; transaction ids do not rise as csns do."""
        self.csn = self.csn + 1 if csn is None else csn
        xid = f"{self.csn * 7919 % 97}.{self.csn}"
        rows = [self._message(xid, *event) for event in self._events]
        counts = Counter(declared.name.upper() for declared, *_ in self._events)
        parts = [{"data_collection": name, "event_count": count} for name, count in counts.items()]
        content = {"xid": xid, "csn": str(self.csn), "event_count": len(rows), "data_collections": parts}
        last = self.sent[-1].state if self.sent else {}
        touched = {declared.name for declared, *_ in self._events}
        state = {name: last[name] if last and name not in touched else dict(held) for name, held in self._state.items()}
        self._events = []
        self.sent.append(Sent(xid, self.csn, rows, (METADATA, json.dumps(content)), state))
        return self.sent[-1]

    def _drop(self, declared: Table, row: Row) -> None:
        key = _key(row, declared)
        self.rows[declared.name].pop(key, None)
        self._state[declared.name].pop(tuple(map(str, key)), None)

    def _message(self, xid: str, declared: Table, op: str, before: Row | None, after: Row | None) -> Message:
        self.pos += 1
        content: Row = {"table": declared.source, "op_type": op, "pos": f"{self.pos:020}", "xid": xid}
        content["csn"] = str(self.csn)
        for name, image in (("before", before), ("after", after)):
            if image is not None:
                content[name] = {column.upper(): _sent(value) for column, value in image.items()}
        return f"rows.{declared.name}", json.dumps(content)


def source_of(*tables: Table, aggregate: Aggregate | None = None, csn: int = 100) -> Source:
    """Return an empty source of some tables."""
    return Source(Shape({each.name: each for each in tables}, aggregate), csn)


def pipeline_of(source: Source, folder: Path) -> Pipeline:
    """Declare a pipeline that mirrors a source."""
    file = folder / "public.yaml"
    file.write_text(declaration(source.shape, folder, patience="30d"))
    return load(file)


def in_order(sent: Sequence[Sent]) -> list[Message]:
    """Return all messages as they were written: each transaction's rows, then its metadata."""
    return [message for each in sent for message in (*each.rows, each.metadata)]


def shuffled(sent: Sequence[Sent], seed: int, landings: int) -> list[list[Message]]:
    """Deliver rows in any order and some messages twice, the metadata in commit order, in landings of one size."""
    delivered = deliver(sent, Random(seed), in_order=True)
    messages = [message for landing in delivered.landings for message in landing]
    size = -(-len(messages) // landings)
    return [messages[start : start + size] for start in range(0, len(messages), size)]


def states(core: Core, landings: Sequence[Sequence[Message]]) -> Iterator[Rows]:
    """Yield what is shown after each landing."""
    for messages in landings:
        core.run(messages)
        assert core.balanced()
        yield core.shown()


def assert_shown(core: Core, source: Source) -> None:
    """Compare what is shown with what the source held as of valid-through."""
    differences = comparison.differences(expected_tables(source.shape, source.sent, core.valid_through), core.shown())
    assert not differences, f"as of {core.valid_through}:\n{comparison.report(differences)}"


def _key(row: Mapping[str, Any], declared: Table) -> Key:
    return tuple(row[column] for column in declared.key)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _sent(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else str(value)


def _image(row: Mapping[str, Any]) -> Image:
    return {column: _text(value) for column, value in row.items()}
