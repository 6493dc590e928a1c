"""Change sets: rows of one table's folder, each with a flag (I, U or D), a timestamp, its key and its values.

There are no transactions: every row stands alone, ordered by its timestamp, to the microsecond, and by its place in the
file where timestamps are equal; several changes of one key in a set are normal. I and U tell the whole row, of D
only the key counts. A file that comes again, under whatever name, is a redelivery; a row that stands in one file
several times is as many changes.

Flag and timestamp are no columns of the table, unless the table declares them.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from txloom.config.models import Table
from txloom.events import causes
from txloom.events.change_events import (
    Headers,
    Image,
    Poison,
    WatchedTables,
    alone,
    check,
    envelope,
    moment,
    refuse_twins,
    sources_of_key,
    written,
)
from txloom.events.image_messages import text_of

FLAGS = frozenset("IUD")
FLAG, TIMESTAMP = "FLAG", "CDC_TIMESTAMP"


class ChangeSetDecoder:
    """Decodes rows of change sets; compiled for its declared tables, so it does not travel between processes."""

    def __init__(
        self,
        tables: Sequence[Table],
        flag: str = FLAG,
        timestamp: str = TIMESTAMP,
        ignored: Sequence[str] | None = None,
    ) -> None:
        """Learn the watched tables and what flag and timestamp are called; ignored: see `WatchedTables`."""
        self._tables = WatchedTables(tables, ignored)
        self._flag, self._timestamp = flag, timestamp
        self._own = {table.name: ChangeSetImages(table, flag, timestamp) for table in tables}
        self._row = msgspec.json.Decoder(Image).decode
        self._told: dict[str, Counter[bytes]] = {}

    def decode(
        self,
        topic: str,
        values: Sequence[bytes | None],
        headers: Headers | None = None,  # noqa: ARG002
        first: int = 1,
    ) -> pa.Table:
        """Decode rows of one folder's file, in order; what is no change comes out as poison with its cause.

        first: the place of the first row in its file. A row that stands in its file again, with all its values, is a
        change of its own, such as the last of 10, 11, 10 within a second.
        """
        if first == 1:
            self._told[topic] = Counter()
        return envelope(partial(self._read, topic), values, first)

    def _read(self, topic: str, value: bytes) -> dict[str, Any]:
        row = self._row(value)
        table = self._tables.find(topic)
        op = self._operation(row)
        if table is not None:
            refuse_twins("the row", row)
            check(table, op, *self._own[table.name].images(row, op))
        at = _named(row, self._timestamp)
        if at is None:
            raise Poison(causes.NO_CSN, f"{self._timestamp} is missing")
        csn, committed_at = moment(self._timestamp, at)
        name = topic if table is None else table.name
        content = msgspec.json.encode(sorted(row.items()))
        told = self._told.setdefault(topic, Counter())
        told[content] += 1
        return {
            **alone(name, csn, content if told[content] == 1 else content + str(told[content]).encode()),
            "committed_at": committed_at,
            "source_table": topic,
            "table": table and table.name,
            "op": op,
            "expected": table and [(table.name, 1)],
        }

    def _operation(self, row: Image) -> str:
        told = _named(row, self._flag)
        text = None if told is None else text_of(told)
        op = (text or "").strip().upper()
        if op not in FLAGS:
            raise Poison(causes.OPERATION, f"{self._flag} is {'missing' if told is None else repr(text)}")
        return op


class ChangeSetImages:
    """Writes rows of one table as `txloom.events.images` reads them; compiled, so it does not travel."""

    def __init__(self, table: Table, flag: str = FLAG, timestamp: str = TIMESTAMP) -> None:
        """Learn a declared table's columns, and what flag and timestamp are called."""
        self._key = sources_of_key(table)
        self._aside = {flag.upper(), timestamp.upper()} - {column.source.upper() for column in table.columns}
        self._row = msgspec.json.Decoder(Image).decode

    def canonical(self, values: Sequence[str], ops: Sequence[str], headers: Headers) -> list[bytes]:  # noqa: ARG002
        """Return rows in GoldenGate's layout; ops: what the envelope says of each."""
        return [written(op, *self.images(self._row(value), op)) for value, op in zip(values, ops, strict=True)]

    def images(self, row: Image, op: str) -> tuple[Image | None, Image | None]:
        """Return what a row tells of itself before and after the change."""
        if op == "D":
            return {name: raw for name, raw in row.items() if name.upper() in self._key}, None
        return None, {name: raw for name, raw in row.items() if name.upper() not in self._aside}


def _named(row: Image, name: str) -> msgspec.Raw | None:
    return next((raw for own, raw in row.items() if own.upper() == name.upper()), None)
