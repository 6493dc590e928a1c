"""Change events: one JSON object per change, with columns and old key as lists of names and of values.

`changeType` is insert, update, delete or truncate, in any case; `table` may be left out where the topic has its name.
Update and delete name the old key, so that a key may change repeatedly, or be used again after a delete. Column sets
differ between events: a column that an insert lacks was added later and is null, one that an update lacks is
unchanged. Types in events are ignored: the declaration has the type of a column.

Each event is a separate transaction. Its timestamp alone orders it, to the microsecond; of equal timestamps the
position in the topic decides. An event with the same content for one table at the same timestamp is a redelivery and
counts once. Functions for changes that are transactions by themselves, which change sets use too, are also here.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec
import pyarrow as pa

from txloom.config.models.column_types import ColumnType
from txloom.config.models.pipeline import Table
from txloom.events import rejections
from txloom.events.diagnosis import diagnosed
from txloom.events.envelope import ENVELOPE
from txloom.events.goldengate.messages import INSERTS, NULL
from txloom.events.malformed import LARGEST, Poison, Refused, poison
from txloom.events.source_names import spelled
from txloom.events.values.scalars import reader

OTHER_KEY = "old key of other columns"
HINTS = {
    OTHER_KEY: "An update names the row that it changes by oldKeyNames and oldKeyValues: let them name every column of "
    "the declared key, or declare the key that the source names its rows by.",
}
"""Hints for the cause that only this format has."""
OPERATIONS = {"insert": "I", "update": "U", "delete": "D", "truncate": "T"}
ALONE = "1"
"""The identity of the only event of its transaction."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_SHOWN = 80
"""The most characters of a value that a detail quotes."""

Image = dict[str, msgspec.Raw]
Headers = Sequence[Mapping[str, str] | None]
_read_instant = reader(ColumnType("timestamptz"))
_BELOW_MICROS = re.compile(r"(\.[0-9]{6})[0-9]+")


class _Message(msgspec.Struct, rename="camel", gc=False):
    change_type: str | None = None
    timestamp: msgspec.Raw = NULL
    table: str | None = None
    column_names: list[str] | None = None
    column_values: list[msgspec.Raw] | None = None
    old_key_names: list[str] | None = None
    old_key_values: list[msgspec.Raw] | None = None

    def images(self, op: str, key: Collection[str]) -> tuple[Image | None, Image | None]:
        """Return the images before and after; key: the source names of the key columns, in upper case.

        A delete without its old key has the key among its columns.
        """
        columns = _paired("columnNames", self.column_names, "columnValues", self.column_values)
        old = _paired("oldKeyNames", self.old_key_names, "oldKeyValues", self.old_key_values)
        if op == "T":
            return None, None
        if op == "D":
            missing = set(key) - {name.upper() for name in old}
            return {name: raw for name, raw in columns.items() if name.upper() in missing} | old, None
        return old if old and op == "U" else None, columns


class WatchedTables:
    """Maps names of a source to declared tables, and remembers how they were spelled."""

    def __init__(
        self,
        tables: Sequence[Table],
        ignored: Sequence[str] | None = None,
        spellings: Mapping[str, str] | None = None,
    ) -> None:
        """Index tables by their names.

        ignored: source tables that are not watched; if given, a name that is neither watched nor ignored is poison.
        spellings: how names were spelled so far, each under its table and the name in capital letters.
        """
        self.spellings = dict(spellings or {})
        self._ignored = (
            None if ignored is None else {spelled for name in ignored for spelled in (name.upper(), _short(name))}
        )
        self._whole = {table.source.upper(): table for table in tables}
        self._short: dict[str, list[Table]] = {}
        for table in tables:
            for name in {_short(table.source), table.name.upper()}:
                self._short.setdefault(name, []).append(table)

    def find(self, name: str) -> Table | None:
        """Return the table that a source name, its last part, or a declared name stands for; None: unwatched.

        Raises Poison for a name that is neither watched nor ignored, that may mean several tables, or that was spelled
        in another case so far.
        """
        whole, short = self._whole.get(name.upper()), self._short.get(name.upper(), [])
        if whole is not None:
            return self._known(whole, name)
        if len(short) > 1:
            sources = " or ".join(sorted(table.source for table in short))
            raise Poison(rejections.UNKNOWN_TABLE, f"{name} may be {sources}: name it in full")
        if not short and self._ignored is not None and name.upper() not in self._ignored:
            raise Poison(rejections.UNKNOWN_TABLE, rejections.describe_unknown(name))
        return self._known(short[0], name) if short else None

    def _known(self, table: Table, name: str) -> Table:
        """Return the table; raises Poison if the name was spelled in another case so far.

        A short name and a full name are two names, each with its spelling.
        """
        return spelled(self.spellings, f"{table.name} {name.upper()}", table, name)


class ChangeEventDecoder:
    """Decodes change events of one source; compiled for its declared tables, so each process makes one."""

    def __init__(
        self,
        tables: Sequence[Table],
        ignored: Sequence[str] | None = None,
        spellings: Mapping[str, str] | None = None,
    ) -> None:
        """Compile the decoder for the watched tables; ignored, spellings: see `WatchedTables`."""
        self.names = self._tables = WatchedTables(tables, ignored, spellings)
        self._message = msgspec.json.Decoder(_Message).decode

    def decode(
        self,
        topic: str,
        values: Sequence[bytes | None],
        headers: Headers | None = None,  # noqa: ARG002
    ) -> pa.Table:
        """Decode messages of one topic into the envelope, in order; a malformed one becomes poison with its cause."""
        return envelope(partial(self._read, topic), values)

    def _read(self, topic: str, value: bytes) -> dict[str, Any]:
        message = self._message(value)
        op = OPERATIONS.get((message.change_type or "").lower())
        if op is None:
            raise Poison(rejections.OPERATION, f"changeType is {message.change_type!r}")
        name = message.table or topic
        table = self._tables.find(name)
        if table is not None:
            check(table, op, *message.images(op, sources_of_key(table)))
            _check_old_key(table, op, message.old_key_names or ())
        lists = (message.column_names, message.column_values, message.old_key_names, message.old_key_values)
        csn, committed_at = moment("timestamp", message.timestamp)
        content = msgspec.json.encode((op, message.timestamp, *lists))
        return {**change(name, table, op), **alone(name, table, csn, content), "committed_at": committed_at}


class ChangeEventImages:
    """Writes the change events of one table in the layout that `events.images.reader` reads."""

    def __init__(self, table: Table) -> None:
        """Compile for a declared table's columns."""
        self._key = sources_of_key(table)
        self._columns = [(column.source, {name.upper() for name in column.sources}) for column in table.columns]
        self._message = msgspec.json.Decoder(_Message).decode

    def canonical(self, values: Sequence[str], ops: Sequence[str], headers: Headers) -> list[bytes]:  # noqa: ARG002
        """Return messages in GoldenGate's layout; ops: the envelope's operation of each."""
        return [self._written(value, op) for value, op in zip(values, ops, strict=True)]

    def _written(self, value: str, op: str) -> bytes:
        before, after = self._message(value).images(op, self._key)
        if after is not None and op in INSERTS:
            given = {name.upper() for name in after}
            after |= {source: NULL for source, names in self._columns if not names & given}
        return written(op, before, after)


def envelope(read: Callable[[bytes], dict[str, Any]], values: Sequence[bytes | None]) -> pa.Table:
    """Read messages one at a time into the envelope, one row each, in order.

    read: returns the envelope's columns of a message; if it raises Poison or an error of msgspec, the row is poison.
    Rows without a position have the order in which they are landed.
    """
    rows = [_row(read, value) for value in values]
    columns = {name: [row.get(name) for row in rows] for name in ENVELOPE.names if name != "ordinal"}
    return pa.table({"ordinal": range(len(rows)), **columns}, ENVELOPE)


def change(source_table: str, table: Table | None, op: str) -> dict[str, Any]:
    """Return the columns of the envelope that every change has; table: the declared one, None: unwatched."""
    return {"source_table": source_table, "table": table and table.name, "op": op}


def digest_of(content: bytes) -> str:
    """Return the hexadecimal digest of a change's content, which distinguishes it from others at the same moment."""
    return blake2b(content, digest_size=16).hexdigest()


def content_of(digest: str) -> dict[str, Any]:
    """Return the envelope's columns payload and digest for a digest; changes of one identity are compared by them."""
    return {"payload": int(digest[:16], 16) >> 1, "digest": bytes.fromhex(digest)}


def alone(source_table: str, table: Table | None, csn: int, content: bytes) -> dict[str, Any]:
    """Return the envelope's columns of a change that is a transaction by itself; content: all of the change."""
    digest = digest_of(content)
    transaction_id = f"{source_table}:{csn}:{digest}"
    event = {
        "transaction_id": transaction_id,
        "xid": transaction_id,
        "csn": csn,
        "identity": ALONE,
        **content_of(digest),
    }
    return event | {"expected": table and [(table.name, 1)]}


def moment(name: str, raw: msgspec.Raw) -> tuple[int, datetime | None]:
    """Return a timestamp's commit position, and its instant, None for a number.

    The commit position of a whole number is the number, that of a date and time the microseconds since the epoch; a
    time without a zone is UTC. Digits below a microsecond are ignored. Raises Poison for anything else.
    """
    text = bytes(raw).decode()
    if text.startswith('"'):
        text = str(msgspec.json.decode(raw)).strip()
    number, instant = -1, None
    if text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST)):
        number = int(text)
    elif bytes(raw).startswith(b'"'):
        try:
            instant = _read_instant(_BELOW_MICROS.sub(r"\1", text))
            number = (instant - EPOCH) // timedelta(microseconds=1)
        except (ValueError, OverflowError):
            pass
    if not 0 <= number <= LARGEST:
        raise Poison(rejections.NO_CSN, f"{name} is {bytes(raw).decode()[:MOST_SHOWN]}")
    return number, instant


def check(table: Table, op: str, before: Image | None, after: Image | None) -> None:
    """Raise Poison for a watched change without the image that its operation needs, or without its key."""
    if op == "T":
        return
    if table.insert_only and op not in INSERTS:
        raise Poison(rejections.INSERT_ONLY, f"operation {op} on {table.name}, whose key is declared none")
    if op != "D" and not after and (before or op != "U"):
        raise Poison(rejections.NO_IMAGE, f"operation {op} without columns")
    for name in table.key:
        sources = {source.upper() for source in table.column(name).sources}
        values = [
            raw for image in (before, after) for column, raw in (image or {}).items() if column.upper() in sources
        ]
        if not values or any(bytes(raw) == b"null" for raw in values):
            raise Poison(rejections.NO_KEY, f"{name} is {'null' if values else 'missing'}")


def _check_old_key(table: Table, op: str, columns: Collection[str]) -> None:
    """Raise Poison for an update whose old key lacks key columns: which row it changes is then unknown."""
    if op != "U" or not columns:
        return
    sources = table.key_sources
    named = {sources.get(column.upper()) for column in columns}
    lacking = [name for name in table.key if name not in named]
    if lacking:
        shown = ", ".join(columns)[:MOST_SHOWN]
        raise Poison(OTHER_KEY, f"oldKeyNames is {shown}, without {', '.join(lacking)} of {table.name}'s key")


def refuse_twins(what: str, names: Collection[str]) -> None:
    """Raise Poison for names that are equal but for case: which value the column has would be a guess."""
    seen = set[str]()
    for name in names:
        if name.upper() in seen:
            raise Poison(rejections.BROKEN, f"{what} has {name[:MOST_SHOWN]} twice")
        seen.add(name.upper())


def sources_of_key(table: Table) -> frozenset[str]:
    """Return the source names of a table's key columns, in upper case."""
    return frozenset(table.key_sources)


def written(op: str, before: Image | None, after: Image | None) -> bytes:
    """Return a change in GoldenGate's layout, with each value as it came."""
    return msgspec.json.encode({"op_type": op, "before": before, "after": after})


def _row(read: Callable[[bytes], dict[str, Any]], value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {"kind": "tombstone"}
    if isinstance(value, Refused):
        return value.poison()
    fields: Mapping[str, Any] = {}
    try:
        return {"kind": "row", "value": value.decode(), **read(value)}
    except Poison as refusal:
        cause, detail = refusal.args
        fields = refusal.fields
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        cause, detail = diagnosed(value, error)
    return {**fields, **poison(value, cause, detail)}


def _paired(what: str, names: list[str] | None, values_what: str, values: list[msgspec.Raw] | None) -> Image:
    names, values = names or [], values or []
    if len(names) != len(values):
        raise Poison(rejections.BROKEN, f"{what} has {len(names)} elements, {values_what} {len(values)}")
    refuse_twins(what, names)
    return dict(zip(names, values, strict=True))


def _short(source: str) -> str:
    return source.rsplit(".", 1)[-1].upper()
