"""Decode Debezium JSON with transaction metadata into the envelope: one topic has BEGIN and END, the others rows.

Difficulties of the format, from Debezium's code and from real captures:

- A row is identified by its position in the source's log, its table, operation and key. `total_order` orders the rows
  of a transaction, but a restart can shift it, and an LSN alone is the same for all rows of one COPY.
- A row of a table without a key is identified by its content and its `total_order`, which distinguishes equal rows of
  one statement. A restart that shifts it makes such a transaction exceed its counts, so that it becomes dead letters.
- A row of a snapshot of a table without a key has no identity in its message: landing identifies it by the partition
  and offset that it was sent at.
- A key change is a delete and an insert, counted as two. Headers show that they belong together: then the delete
  becomes K, which counts and changes nothing, and the insert an update whose image before is the old key, so that
  large values which did not change are taken from the row under that key. Without headers both stay what they are.
- A row of a snapshot has no transaction: it is a transaction by itself, whole at once, with its count in `expected`. So
  is MySQL's TRUNCATE. The `detail` of a snapshot's row says that it is one, and whether it is the last: until the last
  one nothing of the snapshot is shown.
- END's counts are taken as they are. A restart inside a transaction can make them too low, or deliver everything twice;
  `producer_run` names the connector's run that sent a row.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import Any

import msgspec
import pyarrow as pa

from txloom.config import identity
from txloom.config.models.pipeline import Table
from txloom.events import rejections
from txloom.events.counts import expected_counts
from txloom.events.debezium.messages import (
    INCREMENTAL,
    KEY_CHANGE,
    MARKS,
    NEW_KEY,
    NOT_GIVEN,
    OLD,
    OLD_KEY,
    UNAVAILABLE,
    WITH_DATABASE,
    KeyReader,
    Message,
    Number,
    Source,
    has_unavailable,
    is_unavailable,
    key_header,
    read_border,
    read_row,
)
from txloom.events.debezium.positions import BINLOG, Transaction, connector_of, may_be_ahead, read_transaction
from txloom.events.envelope import BEHIND, ENVELOPE, OF_AHEAD, OF_INCREMENTAL, OF_SNAPSHOT
from txloom.events.goldengate.messages import INSERTS
from txloom.events.malformed import Poison, read_message, unsigned
from txloom.events.source_names import SourceNames

HEARTBEAT = "__debezium-heartbeat"
RUN = "__debezium.context.runId"
OPERATIONS = {"c": "I", "u": "U", "d": "D", "r": "r", "t": "T"}
MESSAGE = "m"
"""A logical message of PostgreSQL, written into the log by an application."""
_OTHERS = ({"source", "ddl"}, {"source", "tableChanges"}, {"aggregate_type", "type"})
"""Fields that mark messages which are no change of a row: schema changes, and the connector's notifications."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Headers = Mapping[str, str]


class DebeziumDecoder:
    """Decodes messages of one source; compiled for its declared tables, so each process makes one."""

    def __init__(
        self,
        tables: Sequence[Table],
        transaction_topic: str,
        ignored: Sequence[str] | None = None,
        spellings: Mapping[str, str] | None = None,
        *,
        holds_ahead: bool = False,
    ) -> None:
        """Compile the decoders of a source's messages.

        ignored: source tables that are left alone; if given, rows of any other that is not watched are poison.
        spellings: how sources of tables were spelled so far.
        holds_ahead: whether rows that may be ahead of the stream are marked, and get no table.
        """
        self._topic, self._holds_ahead = transaction_topic, holds_ahead
        self.names = SourceNames(tables, ignored, spellings)
        self._keys = {table.name: KeyReader(table) for table in tables}

    def decode(
        self, topic: str, values: Sequence[bytes | None], headers: Sequence[Headers | None] | None = None
    ) -> pa.Table:
        """Decode messages of one topic into the envelope, in order; a malformed one becomes poison with its cause."""
        headers_of = headers if headers is not None else repeat(None, len(values))
        read = self._reader(topic)
        rows = [
            read_message(partial(read, message_headers or {}), value)
            for value, message_headers in zip(values, headers_of, strict=True)
        ]
        columns = {name: [row.get(name) for row in rows] for name in ENVELOPE.names if name != "ordinal"}
        return pa.table({"ordinal": range(len(rows)), **columns}, ENVELOPE)

    def _reader(self, topic: str) -> Callable[[Headers, bytes], dict[str, Any]]:
        if topic.startswith(HEARTBEAT):
            return _marker
        return self._read_border if topic == self._topic else self._read_row

    def _read_border(self, _headers: Headers, value: bytes) -> dict[str, Any]:
        border = read_border(value)
        if border.status == "BEGIN":
            return {"kind": "marker"}
        if border.status != "END":
            raise Poison(rejections.NO_METADATA, f"status is {border.status!r}")
        transaction = read_transaction(border.id)
        parts = [(count.data_collection, count.event_count) for count in border.data_collections or ()]
        expected = expected_counts(parts or None, border.event_count, partial(self._counted, transaction))
        return {
            "kind": "metadata",
            "transaction_id": transaction.id,
            "xid": transaction.id,
            "csn": transaction.csn,
            "committed_at": _instant(border.ts_ms, 1000),
            "expected": list(expected.items()),
            "event_count": unsigned(border.event_count),
        }

    def _read_row(self, headers: Headers, value: bytes) -> dict[str, Any]:
        message, _ = read_row(value)
        if message is None:
            return {"kind": "tombstone"}
        if message.op == MESSAGE or (message.op is None and _is_other(value)):
            return {"kind": "marker"}
        source, op = _checked(message)
        table = self.names.find(*source.names)
        key = ""
        if table is not None:
            op = self._half(op, headers, table)
            if op == "U":
                key_header(headers, OLD_KEY)
            try:
                key = self._checked_key(op, message, table)
            except Poison as refusal:
                refusal.fields = _known_of(message, source, op, table)
                raise
        return self._envelope(message, source, op, table, key, headers)

    def _envelope(
        self, message: Message, source: Source, op: str, table: Table | None, key: str, headers: Headers
    ) -> dict[str, Any]:
        before, after = bytes(message.before), bytes(message.after)
        kept = [(name, headers[name]) for name in (NEW_KEY, OLD_KEY) if headers.get(name) is not None]
        content = after + "".join(text for _, text in kept).encode()
        payload, digest = identity.payload(op, before, content), identity.digest(op, before, content)
        transaction = _transaction(message, op, source)
        connector, name = connector_of(source, transaction), source.names[-1]
        position, pos = f"{connector.at(source)}:{name}", _position(message, source)
        row = key or (identity.by_content(payload, digest) if op in INSERTS else f"{payload:x}")
        alone = op in INSERTS and not key
        # What MySQL compressed into one event of its binlog has one position, however often a row changed there.
        said = f"{row}/{digest.hex()}" if key and transaction is not None and source.connector in BINLOG else row
        at = _committed_at(source)
        is_held = self._holds_ahead and _of_snapshot(op, source) == OF_INCREMENTAL and may_be_ahead(source)
        is_held = is_held and at is not None  # without a time, the end of the wait is unknown
        shown = None if is_held else table
        return {
            "kind": "row",
            **_within(transaction, f"{message.op}:{position}:{row}", shown),
            "csn": connector.csn(source, transaction),
            "pos": pos,
            "source_table": name,
            "table": shown.name if shown is not None else None,
            "op": op,
            "detail": OF_AHEAD if is_held else _of_snapshot(op, source),
            "identity": _identity(f"{position}:{message.op}:{said}", transaction, pos if alone else None),
            "payload": payload,
            "digest": digest,
            "committed_at": at,
            "producer_run": headers.get(RUN),
            "headers": kept or None,
        }

    def _counted(self, transaction: Transaction, data_collection: str) -> str | None:
        """Return the watched table that an END counts under a name."""
        table = self.names.counted(*_names(data_collection, transaction))
        return None if table is None else table.name

    def _half(self, op: str, headers: Headers, table: Table) -> str:
        """Return the operation of a row: K or U for the halves of a key change that headers show, else as it is."""
        changed = {"D": (KEY_CHANGE, NEW_KEY), "I": ("U", OLD_KEY)}.get(op)
        if changed is None or not table.key:
            return op
        header = key_header(headers, changed[1])
        return changed[0] if header is not None and self._keys[table.name].is_given(header[0]) else op

    def _checked_key(self, op: str, message: Message, table: Table) -> str:
        """Return a watched row's key as text, empty for a table without one.

        Raises Poison for a row without the image that its operation needs, or without its key.
        """
        for name, raw_image in (("before", message.before), ("after", message.after)):
            if bytes(raw_image)[:1] not in (b"{", b"n"):
                raise Poison(rejections.BROKEN, f"`{name}` is no object")
        if op == "T":
            return ""
        if table.insert_only and op not in INSERTS:
            raise Poison(rejections.INSERT_ONLY, f"operation {op} on {table.name}, whose key is declared none")
        image = bytes(message.before if op in OLD else message.after)
        if image == b"null":
            raise Poison(rejections.NO_IMAGE, f"operation {op} without `{'before' if op in OLD else 'after'}`")
        key = self._keys[table.name].read(image)
        left_out = has_unavailable(image)
        for name, raw in key.items():
            if raw is None or raw == b"null" or (left_out and is_unavailable(raw)):
                shown = "missing" if raw is None else "null" if raw == b"null" else "not sent"
                raise Poison(rejections.NO_KEY, f"{name} is {shown}")
        if left_out and op in INSERTS:
            _refuse_left_out(image, table)
        return f"[{','.join(raw.decode() for raw in key.values() if raw)}]" if key else ""


def _checked(message: Message) -> tuple[Source, str]:
    """Return a row event's source block and operation; raises Poison where either is missing or unknown."""
    if message.op is None:
        raise Poison(rejections.OPERATION, "the message has no `op`: it is flattened, or not Debezium's")
    if message.source is None or not message.source.table:
        raise Poison(rejections.NO_TABLE, "the message's `source` names no table")
    op = OPERATIONS.get(message.op)
    if op is None:
        raise Poison(rejections.OPERATION, f"op is {message.op!r}")
    return message.source, op


def _transaction(message: Message, op: str, source: Source) -> Transaction | None:
    """Return a row's transaction; None for a row that is one by itself.

    MySQL's and MariaDB's TRUNCATE is one, also where the connector writes the GTID of the statement: it has no END.
    """
    if op == "T" and source.connector in BINLOG:
        return None
    if message.transaction is not None:
        return read_transaction(message.transaction.id)
    return None if op == "r" else read_transaction(None)


def _of_snapshot(op: str, source: Source) -> str | None:
    """Return a row's part in its snapshot; None for rows of the stream."""
    flag = bytes(source.snapshot)
    if op != "r":
        return None
    return OF_INCREMENTAL if flag == INCREMENTAL else MARKS.get(flag, OF_SNAPSHOT)


def _known_of(message: Message, source: Source, op: str, table: Table) -> dict[str, Any]:
    """Return what is known of a row that cannot be read: of a snapshot's its place, which is not shown without it."""
    if op != "r":
        return {}
    transaction = _transaction(message, op, source)
    try:
        csn = connector_of(source, transaction).csn(source, transaction)
        about = {"csn": csn, "pos": _position(message, source), "op": op}
    except Poison:
        return {}
    return {**about, "table": table.name, "source_table": source.names[-1]}


def _refuse_left_out(image: bytes, table: Table) -> None:
    """Raise Poison for an insert with a placeholder for a declared column: the value is not null, but unknown."""
    declared = table.columns_by_source
    for name, raw in msgspec.json.decode(image, type=dict[str, msgspec.Raw]).items():
        if name.upper() in declared and is_unavailable(bytes(raw)):
            raise Poison(NOT_GIVEN, f"{declared[name.upper()].name} is {UNAVAILABLE}")


def _within(transaction: Transaction | None, alone: str, table: Table | None) -> dict[str, Any]:
    """Return the envelope's columns of a row's transaction; a row without one is a whole transaction by itself.

    alone: the transaction id of a row without a transaction.
    """
    if transaction is not None:
        return {"transaction_id": transaction.id, "xid": transaction.id}
    return {"transaction_id": alone, "xid": alone, "expected": None if table is None else [(table.name, 1)]}


def _identity(known: str, transaction: Transaction | None, number: int | None) -> str | None:
    """Return a row's identity; None where only the partition and offset that it was sent at identify it.

    number: its number in the transaction, for a row without a key; else None.
    """
    if number is None:
        return known
    return None if transaction is None else identity.numbered(known, number)


def _position(message: Message, source: Source) -> int:
    """Return a row's place in its transaction; a row of an incremental snapshot has what its last commit left."""
    if message.transaction is None:
        return BEHIND if bytes(source.snapshot) == INCREMENTAL else 0
    total_order = unsigned(message.transaction.total_order)
    if total_order is None:
        raise Poison(rejections.NO_POSITION, f"total_order is {message.transaction.total_order!r}")
    return total_order


def _names(data_collection: str, transaction: Transaction) -> tuple[str, ...]:
    """Return the names that END's name for a table may stand for; Oracle and SQL Server put the database in front."""
    if data_collection.count(".") == 2 and transaction.connectors[0] in WITH_DATABASE:
        return data_collection, data_collection.split(".", 1)[1]
    return (data_collection,)


def _is_other(value: bytes) -> bool:
    """Return whether a message is one that Debezium writes beside rows."""
    message = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
    if message.keys() == {"schema", "payload"}:
        message = msgspec.json.decode(message["payload"], type=dict[str, msgspec.Raw])
    return message.keys() == {"ts_ms"} or any(fields <= message.keys() for fields in _OTHERS)


def _marker(_headers: Headers, _value: bytes) -> dict[str, Any]:
    return {"kind": "marker"}


def _committed_at(source: Source) -> datetime | None:
    """Return when a row was committed; Oracle sends that beside the time of the change."""
    return _instant(source.commit_ts_ms, 1000) or _instant(source.ts_us, 10**6) or _instant(source.ts_ms, 1000)


def _instant(time: Number, per_second: int) -> datetime | None:
    """Return an instant of the source; a malformed one is None, not poison."""
    try:
        return None if time is None else _EPOCH + timedelta(microseconds=int(time) * (10**6 // per_second))
    except (ValueError, OverflowError):
        return None
