"""Turn wal2json, format-version 1, with one object for each transaction, into lines of format-version 2.

Format-version 1 is not recommended. It leaves out TRUNCATE: the transaction comes with an empty list of changes. A
transaction above 1 GB stops the slot for good, and write-in-chunks cuts a transaction into messages that are not JSON.
The commit position is `nextlsn`, the end of the COMMIT's record, while format-version 2 has its beginning, so a source
that changes its format-version needs a new topic.
"""

from collections.abc import Sequence

import msgspec

from txloom.events import rejections
from txloom.events.diagnosis import diagnosed
from txloom.events.goldengate.messages import NULL
from txloom.events.malformed import Poison, Refused, shown

VERSION_1 = "format-version 1"
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
ACTIONS = {"insert": b"I", "update": b"U", "delete": b"D", "message": b"M"}

Raw = msgspec.Raw
Raws = Sequence[Raw]


class _Keys(msgspec.Struct, gc=False):
    keynames: list[Raw]
    keyvalues: list[Raw]
    keytypes: list[Raw] | None = None


class _Change(msgspec.Struct, gc=False):
    kind: str
    schema: Raw = NULL
    table: Raw = NULL
    columnnames: list[Raw] | None = None
    columnvalues: list[Raw] | None = None
    columntypes: list[Raw] | None = None
    oldkeys: _Keys | None = None


class _Transaction(msgspec.Struct, gc=False):
    change: list[_Change]
    xid: Raw = NULL
    nextlsn: Raw = NULL
    timestamp: Raw = NULL


class _Any(msgspec.Struct, gc=False):
    action: Raw = NULL
    change: Raw = NULL


_any = msgspec.json.Decoder(_Any).decode
_transaction = msgspec.json.Decoder(_Transaction).decode


def expanded(value: bytes) -> list[bytes]:
    """Return a transaction of format-version 1 as BEGIN, rows and COMMIT; anything else as it is.

    A transaction without a commit position or xid, or with malformed changes, is refused as a whole.
    """
    try:
        transaction = _any(value)
    except UNREADABLE:
        return [value]
    if isinstance(value, Refused) or transaction.change == NULL or transaction.action != NULL:
        return [value]
    try:
        return _lines(value)
    except Poison as poison:
        return [Refused(value, *poison.args)]
    except UNREADABLE as error:
        return [Refused(value, *diagnosed(value, error))]


def _lines(value: bytes) -> list[bytes]:
    transaction = _transaction(value)
    if (
        transaction.xid == NULL
        and transaction.nextlsn == NULL
        and [change.kind for change in transaction.change] == ["message"]
    ):
        return [b'{"action":"M"}']
    if transaction.nextlsn == NULL:
        raise Poison(rejections.NO_CSN, "the message has no `nextlsn`: the slot needs include-lsn")
    if transaction.xid == NULL:
        raise Poison(rejections.NO_TRANSACTION, "the message has no `xid`: the slot needs include-xids")
    xid, lsn, timestamp = map(bytes, (transaction.xid, transaction.nextlsn, transaction.timestamp))
    begin, end = (
        b'{"action":"%s","xid":%s,"timestamp":%s,"lsn":%s}' % (action, xid, timestamp, lsn) for action in (b"B", b"C")
    )
    return [begin, *(_row(change, xid, timestamp) for change in transaction.change), end]


def _row(change: _Change, xid: bytes, timestamp: bytes) -> bytes:
    action = ACTIONS.get(change.kind)
    if action is None:
        raise Poison(rejections.OPERATION, f"kind of a change is {shown(change.kind)!r}")
    line = b'{"action":"%s","xid":%s,"timestamp":%s' % (action, xid, timestamp)
    if action == b"M":
        return line + b"}"
    line += b',"schema":%s,"table":%s' % (bytes(change.schema), bytes(change.table))
    if change.columnnames is not None:
        line += b',"columns":' + _cells(change.columnnames, change.columntypes, change.columnvalues or ())
    if change.oldkeys is not None:
        old = change.oldkeys
        line += b',"identity":' + _cells(old.keynames, old.keytypes, old.keyvalues)
    return line + b"}"


def _cells(names: Raws, types: Raws | None, values: Raws) -> bytes:
    """Return names, types and values as cells; values are copied as bytes, so that every digit stays."""
    if len(names) != len(values) or (types is not None and len(types) != len(names)):
        raise Poison(rejections.BROKEN, f"a change has {len(names)} names and {len(values)} values")
    kinds = [b""] * len(names) if types is None else [b'"type":%s,' % bytes(kind) for kind in types]
    columns = zip(names, kinds, values, strict=True)
    cells = [b'{"name":%s,%s"value":%s}' % (bytes(name), kind, bytes(value)) for name, kind, value in columns]
    return b"[%s]" % b",".join(cells)
