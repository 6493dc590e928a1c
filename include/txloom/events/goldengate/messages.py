"""Decode GoldenGate JSON one message at a time, with the exact cause if a message is malformed.

`txloom.events.goldengate.decoder` decodes whole columns and uses this module for messages that are not well-formed.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from txloom.config import identity
from txloom.config.models.pipeline import Table
from txloom.events import rejections
from txloom.events.counts import Number, expected_counts
from txloom.events.envelope import ENVELOPE
from txloom.events.malformed import Poison, Refused, read_message, unsigned
from txloom.events.source_names import SourceNames

OPERATIONS = frozenset("IUDTr")
"""r: a row of an initial load."""
INSERTS = ("I", "r")
NULL = msgspec.Raw(b"null")


class _Row(msgspec.Struct):
    table: str | None = None
    op_type: str | None = None
    op_ts: msgspec.Raw = NULL
    pos: str | int | None = None
    xid: str | int | None = None
    csn: str | int | None = None
    before: msgspec.Raw = NULL
    after: msgspec.Raw = NULL
    tokens: msgspec.Raw = NULL


class _Count(msgspec.Struct):
    data_collection: str
    event_count: Number


class _Metadata(msgspec.Struct):
    xid: str | int | None = None
    csn: str | int | None = None
    tx_ts: msgspec.Raw = NULL
    event_count: Number = None
    data_collections: list[_Count] | None = None


class MessageReader:
    """Reads single messages of one source; compiled for its declared tables."""

    def __init__(
        self,
        tables: Sequence[Table],
        transaction_topic: str | None,
        run_token: str | None = None,
        ignored: Sequence[str] | None = None,
        spellings: Mapping[str, str] | None = None,
    ) -> None:
        """Compile the decoders of a source's row and metadata messages; see `GoldenGateDecoder`."""
        self._run_token = run_token
        self.names = SourceNames(tables, ignored, spellings)
        self._exact = {table.source: table.name for table in tables}
        self._whole = {table.source.upper(): table.name for table in tables}
        self._short = {source.rsplit(".", 1)[-1]: name for source, name in self._whole.items()}
        self._topic = transaction_topic
        self._row = msgspec.json.Decoder(_Row).decode
        self._metadata = msgspec.json.Decoder(_Metadata).decode

    def read(self, topic: str, values: Sequence[bytes | None]) -> pa.Table:
        """Decode messages of one topic into the envelope, in order; a malformed one becomes poison with its cause."""
        read = self._read_metadata if topic == self._topic else self._read_row
        rows = [read_message(read, value) for value in values]
        columns = {name: [row.get(name) for row in rows] for name in ENVELOPE.names if name != "ordinal"}
        return pa.table({"ordinal": range(len(rows)), **columns}, ENVELOPE)

    def learn(self, values: Sequence[bytes | None]) -> None:
        """Record how tables are spelled, in the order of their messages."""
        for value in values:
            if value is None or isinstance(value, Refused):
                continue
            try:
                message = self._row(value)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            if message.table:
                self.names.counted(message.table)

    def counted(self, data_collection: str) -> str | None:
        """Return the watched table that metadata counts under a name, most often a short one; None: unwatched.

        Metadata that txloom writes has the declared source name; of two that differ only in case it means the one that
        is spelled the same.
        """
        if name := self._exact.get(data_collection) or self._whole.get(data_collection.upper()):
            return name
        return self._short.get(data_collection.rsplit(".", 1)[-1].upper())

    def _read_row(self, value: bytes) -> dict[str, Any]:
        message = self._row(value)
        table = self.names.find(message.table) if message.table else None
        xid, csn = _transaction(message.xid, message.csn)
        if not message.table:
            raise Poison(rejections.NO_TABLE, "the message has no `table`")
        op = operation(message.op_type or "")
        if op not in OPERATIONS:
            raise Poison(rejections.OPERATION, f"op_type is {message.op_type!r}")
        pos = unsigned(message.pos)
        if pos is None:
            raise Poison(rejections.NO_POSITION, f"pos is {message.pos!r}")
        before, after = bytes(message.before), bytes(message.after)
        if table is not None:
            _check_images(op, before, after, table)
        return {
            "kind": "row",
            "transaction_id": f"{xid}:{csn}",
            "xid": xid,
            "csn": csn,
            "pos": pos,
            "source_table": message.table,
            "table": table.name if table is not None else None,
            "op": op,
            "identity": str(pos),
            "payload": identity.payload(op, before, after),
            "digest": identity.digest(op, before, after),
            "committed_at": _instant(message.op_ts),
            "producer_run": None if self._run_token is None else run_of(message.tokens, self._run_token),
        }

    def _read_metadata(self, value: bytes) -> dict[str, Any]:
        message = self._metadata(value)
        xid, csn = _transaction(message.xid, message.csn)
        collections = message.data_collections
        parts = None if collections is None else [(each.data_collection, each.event_count) for each in collections]
        expected = expected_counts(parts, message.event_count, self.counted)
        return {
            "kind": "metadata",
            "transaction_id": f"{xid}:{csn}",
            "xid": xid,
            "csn": csn,
            "committed_at": _instant(message.tx_ts),
            "expected": list(expected.items()),
            "event_count": unsigned(message.event_count),
        }


def run_of(tokens: msgspec.Raw, name: str) -> str | None:
    """Return the value of a token, None where the message does not have it."""
    try:
        values = msgspec.json.decode(tokens, type=dict[str, str | int] | None) or {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return None if values.get(name) is None else str(values[name])


def operation(op: str) -> str:
    """Return an operation in its usual case; a producer may write it in lower case."""
    return op if op in OPERATIONS else op.upper()


def _transaction(xid: str | int | None, csn: str | int | None) -> tuple[str, int]:
    if xid is None or xid == "":
        raise Poison(rejections.NO_TRANSACTION, "the message has no `xid`")
    number = unsigned(csn)
    if number is None:
        raise Poison(rejections.NO_CSN, f"csn is {csn!r}")
    return str(xid), number


def _check_images(op: str, before: bytes, after: bytes, table: Table) -> None:
    """Raise Poison for a watched row without the image that its operation needs, or without its key in it."""
    for name, image in (("before", before), ("after", after)):
        if image[:1] not in (b"{", b"n"):
            raise Poison(rejections.BROKEN, f"`{name}` is no object")
    if op == "T":
        return
    if table.insert_only and op not in INSERTS:
        raise Poison(rejections.INSERT_ONLY, f"operation {op} on {table.name}, whose key is declared none")
    image = before if op == "D" else after
    if image == b"null":
        raise Poison(rejections.NO_IMAGE, f"operation {op} without `{'before' if op == 'D' else 'after'}`")
    known = _present(image, table)
    if op == "U" and before != b"null":
        known = {**_present(before, table), **known}
    for name in table.key:
        if known.get(name) is None:
            raise Poison(rejections.NO_KEY, f"{name} is {'null' if name in known else 'missing'}")


def _present(image: bytes, table: Table) -> dict[str, bytes | None]:
    """Return the key columns in an image, by their declared names; of two spellings, one with a value."""
    sources = table.key_sources
    columns = msgspec.json.decode(image, type=dict[str, msgspec.Raw])
    by_upper_name: dict[str, bytes | None] = {}
    for name, value in columns.items():
        if name.upper() in sources and by_upper_name.get(name.upper()) is None:
            by_upper_name[name.upper()] = None if value == NULL else bytes(value)
    # Former names of a column follow its name in the source, which counts.
    return {sources[name]: by_upper_name[name] for name in reversed(sources) if name in by_upper_name}


def _instant(raw: msgspec.Raw) -> datetime | None:
    return instant(msgspec.json.decode(raw))


def instant(value: object) -> datetime | None:
    """Read `2025-07-07 23:33:54.000000`, with T or space, or epoch milliseconds; anything else is None, not poison."""
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
            return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None
