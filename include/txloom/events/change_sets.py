"""Change sets: rows of one table's folder, each with a flag (I, U or D), a timestamp, its key and its values.

Without a transaction field each row is a transaction by itself, ordered by its timestamp, to the microsecond, and by
its position in the file where timestamps are equal; several changes of one key in a set are normal. A field may name
the source's transaction instead, by an id that grows; then a row with the flag H (heartbeat) changes nothing and shows
that its partition has reached that id.

I and U have the whole row; of D only the key counts. A file that comes again, under any name, is a redelivery; a row
that is in one file several times is that many changes, unless a field numbers them. Flag, timestamp and the other
fields are no columns of the table, unless the table declares them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from txloom.config.models.pipeline import Table
from txloom.config.models.source import ChangeSets
from txloom.events import rejections
from txloom.events.change_events import (
    MOST_SHOWN,
    Headers,
    Image,
    WatchedTables,
    alone,
    change,
    check,
    content_of,
    digest_of,
    envelope,
    moment,
    refuse_twins,
    sources_of_key,
    written,
)
from txloom.events.images.single_message import text_of
from txloom.events.malformed import Poison, unsigned

FLAGS = frozenset("IUD")
HEARTBEAT = "H"
USUAL = ChangeSets()


class ChangeSetDecoder:
    """Decodes rows of change sets; compiled for its declared tables, so each process makes one."""

    def __init__(
        self,
        tables: Sequence[Table],
        fields: ChangeSets = USUAL,
        ignored: Sequence[str] | None = None,
        spellings: Mapping[str, str] | None = None,
        former: Sequence[ChangeSets] = (),
    ) -> None:
        """Compile for the watched tables.

        fields: the names of the fields; former: their names before, newest first. ignored, spellings: see
        `WatchedTables`.
        """
        self.names = self._tables = WatchedTables(tables, ignored, spellings)
        self._field_names = FieldNames(fields, former)
        self._fields = fields
        self._images_of = {table.name: ChangeSetImages(table, fields, former) for table in tables}
        self._row = msgspec.json.Decoder(Image).decode
        self._counted: dict[str, Counter[bytes]] = {}

    def decode(
        self,
        topic: str,
        values: Sequence[bytes | None],
        headers: Headers | None = None,  # noqa: ARG002
        first: int = 1,
    ) -> pa.Table:
        """Decode rows of one folder's file, in order; a malformed one becomes poison with its cause.

        first: the position of the first row in its file. A row that is in its file again, with all its values, is
        another change, such as the last of 10, 11, 10 within a second.
        """
        if first == 1:
            self._counted[topic] = Counter()
        return envelope(partial(self._read, topic), values)

    def _read(self, topic: str, value: bytes) -> dict[str, Any]:
        row = self._row(value)
        self._fields = self._field_names.known[self._field_names.find(row)]
        if self._fields.transaction is None:
            table, op = self._change(topic, row)
            timestamp = _named(row, self._fields.timestamp)
            if timestamp is None:
                raise Poison(rejections.NO_CSN, f"{self._fields.timestamp} is missing")
            csn, committed_at = moment(self._fields.timestamp, timestamp)
            event = alone(topic, table, csn, self._content(topic, row))
            return {**change(topic, table, op), **event, "committed_at": committed_at}
        transaction = self._transaction(row)
        try:
            return self._part(topic, row, transaction)
        except Poison as poison:
            poison.fields = transaction
            raise

    def _part(self, topic: str, row: Image, transaction: dict[str, Any]) -> dict[str, Any]:
        """Return the envelope's columns of a row that is part of a transaction."""
        if self._flag(row) == HEARTBEAT:
            return {**transaction, "kind": "marker", "transaction_id": None}
        table, op = self._change(topic, row)
        timestamp = _named(row, self._fields.timestamp)
        committed_at = None if timestamp is None else moment(self._fields.timestamp, timestamp)[1]
        content = self._content(topic, row)
        digest = digest_of(content)
        event = {"identity": digest, **content_of(digest), "committed_at": committed_at}
        if self._fields.sequence is not None:
            number = _integer(row, self._fields.sequence)
            event |= {"identity": str(number), "pos": number}
        return {**change(topic, table, op), **transaction, **event}

    def _change(self, topic: str, row: Image) -> tuple[Table | None, str]:
        """Return the table of a row (None: unwatched) and its operation; raises Poison for a malformed row."""
        table = self._tables.find(topic)
        op = self._flag(row)
        if op not in FLAGS:
            flag = _named(row, self._fields.flag)
            shown = "missing" if flag is None else repr(text_of(flag))
            raise Poison(rejections.OPERATION, f"{self._fields.flag} is {shown}")
        if table is not None:
            refuse_twins("the row", row)
            check(table, op, *self._images_of[table.name].images(row, op))
        return table, op

    def _transaction(self, row: Image) -> dict[str, Any]:
        assert self._fields.transaction is not None
        number = _integer(row, self._fields.transaction)
        return {"transaction_id": str(number), "xid": str(number), "csn": number}

    def _content(self, topic: str, row: Image) -> bytes:
        """Return a row's content, with a number from its second occurrence in the file on."""
        content = msgspec.json.encode(sorted(row.items()))
        counted = self._counted.setdefault(topic, Counter())
        counted[content] += 1
        return content if counted[content] == 1 else content + str(counted[content]).encode()

    def _flag(self, row: Image) -> str:
        flag = _named(row, self._fields.flag)
        return ("" if flag is None else text_of(flag) or "").strip().upper()


class ChangeSetImages:
    """Writes rows of one table in the layout that `txloom.events.images.reader` reads."""

    def __init__(self, table: Table, fields: ChangeSets = USUAL, former: Sequence[ChangeSets] = ()) -> None:
        """Compile for a declared table's columns; fields: the names of the fields; former: as of `ChangeSetDecoder`."""
        self._key = sources_of_key(table)
        self._field_names = FieldNames(fields, former)
        self._asides = [_upper(each) - table.columns_by_source.keys() for each in self._field_names.known]
        self._row = msgspec.json.Decoder(Image).decode

    def canonical(self, values: Sequence[str], ops: Sequence[str], headers: Headers) -> list[bytes]:  # noqa: ARG002
        """Return rows in GoldenGate's layout; ops: the envelope's operation of each."""
        return [written(op, *self.images(self._row(value), op)) for value, op in zip(values, ops, strict=True)]

    def images(self, row: Image, op: str) -> tuple[Image | None, Image | None]:
        """Return a row's images before and after the change."""
        if op == "D":
            return {name: raw for name, raw in row.items() if name.upper() in self._key}, None
        aside = self._asides[self._field_names.find(row)]
        return None, {name: raw for name, raw in row.items() if name.upper() not in aside}


class FieldNames:
    """Decides whether a row uses the present or former field names after the declaration renamed them.

    Args:
        fields: the names of the fields.
        former: their names before, newest first.
    """

    def __init__(self, fields: ChangeSets, former: Sequence[ChangeSets]) -> None:
        """Order the names: those of more fields first, so that a row is read by every field that it has."""
        self.known = sorted(dict.fromkeys((fields, *former)), key=lambda each: -len(_upper(each)))
        self._present = self.known.index(fields)
        self._upper = [*map(_upper, self.known)]

    def find(self, row: Image) -> int:
        """Return the position in `known` of the first names that a row has in full; of none, of the present names."""
        if len(self.known) == 1:
            return 0
        there = {name.upper() for name in row}
        return next((number for number, names in enumerate(self._upper) if names <= there), self._present)


def _upper(fields: ChangeSets) -> frozenset[str]:
    """Return the names of fields in upper case."""
    return frozenset(name.upper() for name in fields.model_dump().values() if name is not None)


def _named(row: Image, name: str) -> msgspec.Raw | None:
    return next((raw for column, raw in row.items() if column.upper() == name.upper()), None)


def _integer(row: Image, name: str) -> int:
    """Return a field's whole number of at most 63 bits, written as number or as text; raises Poison for others."""
    raw = _named(row, name)
    number = None if raw is None else unsigned((text_of(raw) or "").strip())
    if number is None:
        shown = "missing" if raw is None else bytes(raw).decode()[:MOST_SHOWN]
        raise Poison(rejections.NO_CSN, f"{name} is {shown}")
    return number
