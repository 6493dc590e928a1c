"""Decode GoldenGate JSON of the Kafka Connect handler, row events and transaction metadata, into the envelope.

Facts of the format are from Oracle's manual and real messages. `data_collection` is the short table name while
`table` is SCHEMA.TABLE; the top-level event_count counts unwatched operations too; csn and pos are numbers written as
text; xid is not in commit order; transaction mode concatenates objects, of which a plain parse would read only one.

Well-formed messages are decoded as whole columns. Any other message is read alone, with an exact diagnosis; both ways
give the same envelope for the same message.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, Counts
from txloom.config import identity
from txloom.config.models.pipeline import Table
from txloom.events.envelope import ENVELOPE
from txloom.events.goldengate.messages import INSERTS, NULL, OPERATIONS, MessageReader, instant, run_of
from txloom.events.malformed import LARGEST, Poison, Refused
from txloom.events.values.text import INSTANT, read_instants

M = TypeVar("M", bound=msgspec.Struct)

SURE_DIGITS = 18
"""The most decimal digits that always fit 63 bits."""
FIRST_OF_AN_IMAGE = frozenset(b"{n")
"""The first bytes of an image: of an object, or of null."""
FIRST_OF_A_VALUE = frozenset(b'"-0123456789')
"""The first bytes of a key's value in an image when it is text or a number."""
COLON = ord(":")


class _Row(msgspec.Struct, gc=False):
    table: str
    op_type: str
    pos: str | int
    xid: str | int
    csn: str | int
    op_ts: str | int | float | None = None
    before: msgspec.Raw = NULL
    after: msgspec.Raw = NULL
    tokens: msgspec.Raw = NULL


class _Count(msgspec.Struct, gc=False):
    data_collection: str
    event_count: int


class _Metadata(msgspec.Struct, gc=False):
    xid: str | int
    csn: str | int
    tx_ts: str | int | float | None = None
    event_count: int | None = None
    data_collections: list[_Count] | None = None


class _Target(msgspec.Struct):
    """The meaning of a message's `table`: the declared name (None: unwatched) and its key columns in an image.

    keys: quoted and in lower case, because names of columns are compared without case; empty for a table without a key.
    unknown: its rows are poison.
    """

    name: str | None
    keys: tuple[bytes, ...] = ()
    unknown: bool = False

    def takes(self, op: str, before: bytes, after: bytes) -> bool:
        """Return whether its table can certainly take a change; False only means that the message is read alone."""
        if not {before[0], after[0]} <= FIRST_OF_AN_IMAGE:
            return False
        image = before if op == "D" else after
        if op == "T" or not self.keys:
            return op == "T" or (op in INSERTS and image != b"null")
        return _has_keys(image, self.keys)


class GoldenGateDecoder:
    """Decodes messages of one source; compiled for its declared tables, so each process makes one."""

    def __init__(
        self,
        tables: Sequence[Table],
        transaction_topic: str | None,
        run_token: str | None = None,
        ignored: Sequence[str] | None = None,
        spellings: Mapping[str, str] | None = None,
    ) -> None:
        """Compile the decoders of a source's row and metadata messages.

        transaction_topic: None where no metadata counts events. run_token: the token that names the producer's run.
        ignored: source tables that are left alone; if given, rows of any other that is not watched are poison.
        spellings: how sources of tables were spelled so far.
        """
        self._topic = transaction_topic
        self._run_token = run_token
        self._messages = MessageReader(tables, transaction_topic, run_token, ignored, spellings)
        self.names = self._messages.names
        self._row = msgspec.json.Decoder(_Row).decode
        self._metadata = msgspec.json.Decoder(_Metadata).decode
        self._targets: dict[str, _Target] = {}

    def decode(self, topic: str, values: Sequence[bytes | None]) -> pa.Table:
        """Decode messages of one topic into the envelope, in order; a malformed one becomes poison with its cause."""
        columns = self._metadata_columns if topic == self._topic else self._row_columns
        sure, table = columns(values)
        if len(sure) < len(values):
            rest = np.setdiff1d(np.arange(len(values)), sure)
            others = self._messages.read(topic, [values[i] for i in rest])
            order = np.argsort(np.concatenate([sure, rest]), kind="stable")
            table = pa.concat_tables([table, others]).take(pa.array(order, pa.int64()))
        ordinal = pa.array(np.arange(len(values), dtype=np.int32))
        return table.set_column(0, ENVELOPE.field("ordinal"), ordinal)

    def _row_columns(self, values: Sequence[bytes | None]) -> tuple[np.ndarray, pa.Table]:
        """Return the indices of the well-formed row messages, and their envelope."""
        places, messages = _parsed(self._row, values)
        if len(places) < sum(value is not None for value in values):
            self._messages.learn(values)
        names, ops, kept = list[str | None](), list[str](), list[int]()
        payloads, digests = list[int](), list[bytes]()
        targets = self._targets
        for number, message in enumerate(messages):
            target = targets.get(message.table) or self._target(message.table)
            op = message.op_type
            if op not in OPERATIONS or not message.xid or not message.table or target.unknown:
                continue
            before, after = bytes(message.before), bytes(message.after)
            if target.name is not None and not target.takes(op, before, after):
                continue
            kept.append(number)
            names.append(target.name)
            ops.append(op)
            payloads.append(identity.payload(op, before, after))
            digests.append(identity.digest(op, before, after))
        messages = [messages[number] for number in kept]
        pos, xid, csn = (_texts([getattr(m, name) for m in messages]) for name in ("pos", "xid", "csn"))
        text = _values([values[places[number]] for number in kept])
        sure = pc.and_(pc.and_(_is_number(pos), _is_number(csn)), pc.is_valid(text))
        columns: dict[str, AnyArray] = {
            "kind": pa.repeat(pa.scalar("row"), len(kept)),
            "xid": xid,
            "csn": csn,
            "pos": pos,
            "source_table": pa.array([m.table for m in messages], pa.string()),
            "table": pa.array(names, pa.string()),
            "op": pa.array(ops, pa.string()),
            "payload": pa.array(payloads, pa.int64()),
            "digest": pa.array(digests, pa.binary()),
            "committed_at": _instants([m.op_ts for m in messages]),
            "value": text,
        }
        if self._run_token is not None:
            columns["producer_run"] = pa.array([run_of(m.tokens, self._run_token) for m in messages], pa.string())
        return _sure(sure, np.asarray(places, np.int64)[kept], columns)

    def _target(self, source_table: str) -> _Target:
        try:
            table, target = self.names.find(source_table), _Target(None)
        except Poison:
            table, target = None, _Target(None, unknown=True)
        if table is not None:
            keys = tuple(f'"{table.column(name).source}"'.encode().lower() for name in table.key)
            target = _Target(table.name, keys)
        self._targets[source_table] = target
        return target

    def _metadata_columns(self, values: Sequence[bytes | None]) -> tuple[np.ndarray, pa.Table]:
        """Return the indices of the well-formed metadata messages, and their envelope."""
        places, messages = _parsed(self._metadata, values)
        kept, expected = list[int](), list[dict[str, int]]()
        for number, message in enumerate(messages):
            counts = self._counts(message)
            if counts is not None and message.xid:
                kept.append(number)
                expected.append(counts)
        messages = [messages[number] for number in kept]
        xid, csn = (_texts([getattr(m, name) for m in messages]) for name in ("xid", "csn"))
        text = _values([values[places[number]] for number in kept])
        columns: dict[str, AnyArray] = {
            "kind": pa.repeat(pa.scalar("metadata"), len(kept)),
            "xid": xid,
            "csn": csn,
            "committed_at": _instants([m.tx_ts for m in messages]),
            "expected": _counts_array(expected),
            "event_count": pa.array([m.event_count for m in messages], pa.int64()),
            "value": text,
        }
        return _sure(pc.and_(_is_number(csn), pc.is_valid(text)), np.asarray(places, np.int64)[kept], columns)

    def _counts(self, message: _Metadata) -> dict[str, int] | None:
        """Return the watched tables' counts; None for a message that must be read alone."""
        counts: dict[str, int] = {}
        left = LARGEST if message.event_count is None else message.event_count
        if message.data_collections is None or left > LARGEST:
            return None
        for count in message.data_collections:
            name = self._messages.counted(count.data_collection)
            left -= count.event_count
            if name in counts or count.event_count < 0:
                return None
            if name is not None:
                counts[name] = count.event_count
        return None if left < 0 else counts


def _parsed(decode: Callable[[bytes], M], values: Sequence[bytes | None]) -> tuple[Sequence[int], list[M]]:
    """Return the indices of the messages that can be parsed, and these messages parsed."""
    if Refused not in set(map(type, values)):
        try:
            return range(len(values)), [decode(value) for value in values]  # type: ignore[arg-type]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
            pass
    places, messages = [], []
    for position, value in enumerate(values):
        if isinstance(value, Refused):
            continue
        try:
            messages.append(decode(value))  # type: ignore[arg-type]
            places.append(position)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
            continue
    return places, messages


def _has_keys(image: bytes, keys: tuple[bytes, ...]) -> bool:
    """Return whether an image certainly has the keys with values, each once, and before any nested object.

    keys: quoted, in lower case. Since a name may be written with escapes, an image with escapes is not certain.
    """
    last, lowered = 0, image.lower()
    for key in keys:
        start = lowered.find(key)
        end = start + len(key)
        if start < 0 or image[end] != COLON or image[end + 1] not in FIRST_OF_A_VALUE or lowered.find(key, end) >= 0:
            return False
        last = max(last, start)
    return image.find(b"{", 1, last) < 0 and b"\\u00" not in image


def _texts(values: list[Any]) -> pa.StringArray:
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([str(value) for value in values], pa.string())


def _values(values: list[Any]) -> pa.StringArray:
    """Return messages as text; one that is not UTF-8 is null."""
    whole = pa.array(values, pa.binary())
    try:
        return cast("pa.StringArray", whole.cast(pa.string()))
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in values], pa.string())


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _is_number(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.and_(
        pc.ascii_is_decimal(texts), pc.less_equal(pc.binary_length(pc.ascii_ltrim(texts, "0")), pa.scalar(SURE_DIGITS))
    )


def _instants(texts: list[Any]) -> AnyArray:
    try:
        instants = read_instants(pa.array(texts, pa.string()))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([instant(each) for each in texts], INSTANT)
    return instants


def _counts_array(counts: list[dict[str, int]]) -> Counts:
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in counts])]).astype(np.int32)
    names = pa.array([name for each in counts for name in each], pa.string())
    numbers = pa.array([number for each in counts for number in each.values()], pa.int64())
    # The offsets of a map have 32 bits, the stubs say 64.
    maps: Counts = pa.MapArray.from_arrays(offsets, names, numbers)  # type: ignore[call-overload]
    return maps


def _sure(sure: pa.BooleanArray, places: np.ndarray, columns: Mapping[str, AnyArray]) -> tuple[np.ndarray, pa.Table]:
    """Return the indices and the envelope of the messages that `sure` flags, with csn and pos as integers."""
    table = pa.table(columns)
    if not pc.all(sure).as_py():
        table, places = table.filter(sure), places[sure.to_numpy(zero_copy_only=False)]
    envelope = {name: table.column(name) for name in columns}
    envelope["csn"] = envelope["csn"].cast(pa.int64())
    csn = envelope["csn"].cast(pa.string())
    # The stubs do not know that a scalar may stand among the texts.
    envelope["transaction_id"] = pc.binary_join_element_wise(envelope["xid"], csn, ":")  # type: ignore[call-overload]
    if "pos" in envelope:
        envelope["pos"] = envelope["pos"].cast(pa.int64())
        envelope["identity"] = envelope["pos"].cast(pa.string())
    size = table.num_rows
    whole = [envelope[field.name] if field.name in envelope else pa.nulls(size, field.type) for field in ENVELOPE]
    return places, pa.Table.from_arrays(whole, schema=ENVELOPE)
