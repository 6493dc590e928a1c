"""Decode wal2json, format-version 2: one ordered stream per topic, each transaction's rows between BEGIN and COMMIT.

A row has neither its transaction's commit position nor its position within the transaction: rows of one COPY or
TRUNCATE share their LSN. Both come from the order of the stream. BEGIN has the commit position, and a row is identified
by its ordinal after BEGIN, counting watched and unwatched rows. So the messages of a topic are decoded in order, and
the transaction that is open at the end of a call continues in the next one.

Reads are at least once: after a crash the events of a transaction come again, byte for byte, after another BEGIN, and
get the same ordinals. Only this decoder counts the rows: an unreadable message that may have been a row takes an
ordinal, and the following COMMIT is poison, because the transaction is not whole. Poison that took an ordinal has xid,
csn and pos; it has no transaction_id, so that it stays a dead letter when the transaction is released.

The slot needs include-xids, include-lsn and include-timestamp, and keeps include-transaction, include-schemas and
include-types as they are. DDL, and updates and deletes of tables without a replica identity, are not in the stream.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from txloom.config import identity
from txloom.config.models.pipeline import Table
from txloom.events import rejections
from txloom.events.diagnosis import diagnosed
from txloom.events.envelope import ENVELOPE
from txloom.events.goldengate.messages import NULL, instant
from txloom.events.malformed import LARGEST, Poison, Refused, poison
from txloom.events.source_names import SourceNames
from txloom.events.wal2json.images import Target
from txloom.events.wal2json.version_1 import VERSION_1

OUTSIDE = "no open transaction"
ANOTHER = "another transaction is open"
DAMAGED = "transaction with unreadable messages"
BACKWARDS = "row before its predecessor"
HINTS = {
    OUTSIDE: "No BEGIN stands before the message: the stream begins in mid-transaction, or lost messages. Read the "
    "slot again from before the transaction, or take a snapshot of the tables.",
    ANOTHER: "Transactions come one after the other: look for two readers that write into one topic or folder, or for "
    "a BEGIN that was lost.",
    DAMAGED: "Rows of it may be among the messages that cannot be read, so that it is not whole: deliver it again from "
    "its BEGIN on, or take a snapshot of its tables.",
    BACKWARDS: "Rows of a transaction come in the order of the log: a file was read before one that comes before it. "
    "Name files so that their order shows (docs/operations.md), then deliver the transaction again from its BEGIN on.",
    VERSION_1: "A whole transaction in one message: set the slot's format-version to 2. Format-version 1 leaves "
    "truncates out, and a transaction above 1 GB stops it for good.",
}
"""Hints for the causes that only this format has."""

ROWS = frozenset("IUDT")
NO_XID = rejections.NO_TRANSACTION, "the message has no `xid`; the slot needs include-xids"
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_BEGIN = b'{"action":"B"'
_NO_ROW = re.compile(rb'\s*\{"action":\s*"[BCM]"')


class _Line(msgspec.Struct, gc=False):
    action: str | None = None
    xid: int | str | None = None
    lsn: str | None = None
    timestamp: str | None = None
    schema: str | None = None
    table: str | None = None
    columns: msgspec.Raw = NULL
    identity: msgspec.Raw = NULL
    change: msgspec.Raw = NULL


class _Poison(Exception):
    """A message that cannot be taken as an event; args: cause, detail, the known columns of its envelope."""


@dataclass(frozen=True)
class Open:
    """A transaction whose COMMIT has not come, with the state that decoding needs to continue inside it.

    ordinal: that of the last row event, 0 before the first. counts: row events by declared table, including poison.
    unreadable: how many messages may have been rows of any table. lsn: the highest of the rows that could be read.
    """

    xid: str
    csn: int
    committed_at: datetime | None
    ordinal: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    unreadable: int = 0
    lsn: int = 0

    @property
    def transaction_id(self) -> str:
        """Return the transaction id of all its events."""
        return f"{self.xid}:{self.csn}"

    def with_row(self, table: str | None) -> "Open":
        """Return the transaction with one more row event, counted for a declared table, if given."""
        counts = self.counts if table is None else {**self.counts, table: self.counts.get(table, 0) + 1}
        return replace(self, ordinal=self.ordinal + 1, counts=counts)


class Wal2JsonDecoder:
    """Decodes messages of one source; compiled for its declared tables, so each process makes one."""

    def __init__(
        self,
        tables: Sequence[Table],
        ignored: Sequence[str] | None = None,
        spellings: Mapping[str, str] | None = None,
    ) -> None:
        """Compile the decoder of a source's messages.

        ignored: source tables that are left alone; if given, rows of any other that is not watched are poison.
        spellings: how sources of tables were spelled so far.
        """
        self.names = SourceNames(tables, ignored, spellings, parts=2)
        self._line = msgspec.json.Decoder(_Line).decode
        self._targets: dict[tuple[str, str], Target] = {}
        self._open: dict[str, Open] = {}

    def decode(
        self,
        topic: str,
        values: Sequence[bytes | None],
        headers: Sequence[Mapping[str, str] | None] | None = None,  # noqa: ARG002 - what every format's decoder takes
    ) -> pa.Table:
        """Decode the next messages of one topic into the envelope; a malformed one becomes poison with its cause."""
        rows = [self._read(topic, value) for value in values]
        columns = {name: [row.get(name) for row in rows] for name in ENVELOPE.names if name != "ordinal"}
        return pa.table({"ordinal": range(len(rows)), **columns}, ENVELOPE)

    def open(self, topic: str) -> Open | None:
        """Return the transaction that is open after the messages of a topic so far, None without any."""
        return self._open.get(topic)

    def resume(self, topic: str, open: Open | None) -> None:  # noqa: A002 - named as what tells it
        """Continue in a topic where an earlier decoding ended; open: the transaction that was open there, if any."""
        self._open.pop(topic, None)
        if open is not None:
            self._open[topic] = open

    def _read(self, topic: str, value: bytes | None) -> dict[str, Any]:
        if value is None:
            return {"kind": "tombstone"}
        if isinstance(value, Refused):
            return {**value.poison(), **self._maybe_row(topic, value)}
        try:
            text = value.decode()
            line = self._line(value)
        except UNREADABLE as error:
            return self._unparsed(topic, value, error)
        try:
            return {**self._event(topic, line), "value": text}
        except _Poison as refusal:
            cause, detail, known = refusal.args
            return {**known, **poison(value, cause, detail)}

    def _unparsed(self, topic: str, value: bytes, error: Exception) -> dict[str, Any]:
        text = value.decode("utf-8", "backslashreplace")
        begin = self._begin_behind(value)
        if begin is not None:
            return {**self._begin(topic, begin), "value": text, "detail": "behind a message that was cut off"}
        cause, detail = diagnosed(value, error)
        known = self._maybe_row(topic, value)
        return {**known, **poison(value, cause, detail)}

    def _maybe_row(self, topic: str, value: bytes) -> dict[str, Any]:
        """Count an unreadable message as a row, unless it is certainly none; return its known columns."""
        may_be_row = (b"{" in value or b"\x00" in value) and _NO_ROW.match(value) is None
        return self._lost(topic) if may_be_row else {}

    def _begin_behind(self, value: bytes) -> _Line | None:
        """Return the BEGIN that follows a truncated message in one line; None without any.

        Such a line comes from a crash: a reader that is started again appends to its file, and sends the truncated
        transaction again after a BEGIN. The bytes of BEGIN cannot be inside a text, whose quotes would be escaped.
        """
        start = value.rfind(_BEGIN)
        if start <= 0:
            return None
        try:
            msgspec.json.decode(value[:start], type=msgspec.Raw)
        except msgspec.DecodeError as error:
            if not str(error).endswith(("truncated", f"(byte {start})")):
                return None
        except UNREADABLE:
            return None
        else:
            return None
        try:
            begin = self._line(value[start:])
            _begun(begin)
        except (*UNREADABLE, _Poison):
            return None
        return begin

    def _event(self, topic: str, line: _Line) -> dict[str, Any]:
        if line.action in ROWS:
            return self._row(topic, line)
        if line.action == "B":
            return self._begin(topic, line)
        if line.action == "C":
            return self._commit(topic, line)
        if line.action == "M":
            return {"kind": "marker"}
        if line.action is None and line.change != NULL:
            raise _Poison(VERSION_1, "the message has `change`, not `action`", {})
        transaction = self._open.get(topic)
        known = self._lost(topic) if transaction is not None and str(line.xid) == transaction.xid else {}
        raise _Poison(rejections.OPERATION, f"action is {line.action!r}", known)

    def _begin(self, topic: str, line: _Line) -> dict[str, Any]:
        self._open.pop(topic, None)
        transaction = self._open[topic] = _begun(line)
        names = {"transaction_id": transaction.transaction_id, "xid": transaction.xid, "csn": transaction.csn}
        return {"kind": "marker", **names, "committed_at": transaction.committed_at}

    def _commit(self, topic: str, line: _Line) -> dict[str, Any]:
        transaction = self._inside(topic, line)
        del self._open[topic]
        names = {"xid": transaction.xid, "csn": transaction.csn}
        if transaction.unreadable:
            raise _Poison(DAMAGED, f"{transaction.unreadable} of its messages cannot be read", names)
        return {
            "kind": "metadata",
            **names,
            "transaction_id": transaction.transaction_id,
            "committed_at": transaction.committed_at or instant(line.timestamp),
            "expected": list(transaction.counts.items()),
            "event_count": transaction.ordinal,
        }

    def _row(self, topic: str, line: _Line) -> dict[str, Any]:
        transaction, op = self._inside(topic, line), line.action or ""
        lsn = lsn_number(line.lsn) or 0
        if 0 < lsn < transaction.lsn:
            raise _Poison(BACKWARDS, f"lsn {line.lsn} comes behind a later one", self._lost(topic))
        if not line.schema or not line.table:
            lacks = "table" if line.schema else "schema"
            raise _Poison(rejections.NO_TABLE, f"the message has no `{lacks}`", self._lost(topic))
        target = self._targets.get((line.schema, line.table)) or self._target(line.schema, line.table)
        transaction = self._open[topic] = replace(transaction.with_row(target.name), lsn=max(lsn, transaction.lsn))
        known = {"xid": transaction.xid, "csn": transaction.csn, "pos": transaction.ordinal}
        known |= {"source_table": target.source, "table": target.name, "op": op}
        before, after = bytes(line.identity), bytes(line.columns)
        refusal = target.refusal(op, before, after)
        if refusal is not None:
            raise _Poison(*refusal, known)
        return {
            "kind": "row",
            **known,
            "transaction_id": transaction.transaction_id,
            "identity": str(transaction.ordinal),
            "payload": identity.payload(op, before, after),
            "digest": identity.digest(op, before, after),
            "committed_at": transaction.committed_at or instant(line.timestamp),
        }

    def _inside(self, topic: str, line: _Line) -> Open:
        """Return the open transaction that a row or a COMMIT belongs to; raises _Poison if it belongs to no such."""
        transaction = self._open.get(topic)
        if line.xid is None or line.xid == "":
            raise _Poison(*NO_XID, self._lost(topic) if line.action in ROWS else {})
        if transaction is None:
            raise _Poison(OUTSIDE, f"no BEGIN of xid {line.xid} before it", {})
        if str(line.xid) != transaction.xid:
            raise _Poison(ANOTHER, f"xid {line.xid}, while xid {transaction.xid} has no COMMIT yet", {})
        return transaction

    def _lost(self, topic: str) -> dict[str, Any]:
        """Count an unreadable row in the open transaction; return its known columns, none without a transaction."""
        transaction = self._open.get(topic)
        if transaction is None:
            return {}
        transaction = self._open[topic] = replace(transaction.with_row(None), unreadable=transaction.unreadable + 1)
        return {"xid": transaction.xid, "csn": transaction.csn, "pos": transaction.ordinal}

    def _target(self, schema: str, table: str) -> Target:
        source = f"{schema}.{table}"
        try:
            target = Target(source, self.names.find(source))
        except Poison as unknown:
            target = Target(source, None, refused=unknown.args)
        self._targets[schema, table] = target
        return target


def lsn_number(lsn: str | None) -> int | None:
    """Return a log position as a number, None for anything else and for one of more than 63 bits.

    >>> lsn_number("0/1DD9F38"), lsn_number("80000000/0"), lsn_number("0x1")
    (31301432, None, None)
    """
    match = None if lsn is None else _LSN.fullmatch(lsn)
    number = LARGEST + 1 if match is None else int(match[1], 16) << 32 | int(match[2], 16)
    return number if number <= LARGEST else None


def _begun(line: _Line) -> Open:
    """Return the transaction that a BEGIN begins; raises _Poison if it lacks the xid or the lsn."""
    if line.xid is None or line.xid == "":
        raise _Poison(*NO_XID, {})
    csn = lsn_number(line.lsn)
    if csn is None:
        raise _Poison(rejections.NO_CSN, f"lsn is {line.lsn!r}; the slot needs include-lsn", {})
    return Open(str(line.xid), csn, instant(line.timestamp))
