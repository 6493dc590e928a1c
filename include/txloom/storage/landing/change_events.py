"""The rows of change_events that a landing writes: decoded events, each with the position that it came from."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import identity
from txloom.errors import SourceUnavailable
from txloom.storage.sources.splits import PLACE_BITS, LandingPlan, Task, line_bits
from txloom.storage.system_tables import CHANGE_EVENTS, INSTANT
from txloom.transactions.compact_events import of_snapshot, packed
from txloom.transactions.hashes import hashed

LINES_PER_FILE = 1 << 32
"""`row` is the number of the input split times this plus the line: unique in a landing, and the same when repeated."""
MOST_LANDINGS = 1 << 24
"""So many landings have positions: of their 63 bits `splits.PLACE_BITS` are for a landing's files and lines."""
COMPACT_ROW = -2
"""`row` of compact events, which did not come from the source."""
COORDINATES = ("topic", "partition", "offset", "file", "line")


def with_position(events: pa.Table, task: Task, positions: Sequence[int], landing: LandingPlan) -> pa.Table:
    """Return decoded events as rows of change_events.

    Args:
        events: rows of the envelope.
        task: the input split that they came from.
        positions: the line or offset of each event.
        landing: the landing that takes them.

    Raises:
        SourceUnavailable: a landing has no position for a line or offset that large.
    """
    return identified(_with_coordinates(events, task, positions, landing))


def as_before(events: pa.Table, before: pa.Table) -> pa.Table:
    """Return events that are decoded again with the coordinates of their earlier landing.

    Args:
        events: rows of the envelope.
        before: the same events, in the same order, with the columns of COORDINATES.
    """
    for name in COORDINATES:
        events = events.append_column(CHANGE_EVENTS.field(name), before.column(name))
    return events


def landed_again(events: pa.Table, landing: LandingPlan, first: int = 0) -> pa.Table:
    """Return events with coordinates (`as_before`) as rows of change_events of another landing, in their order.

    first: how many events of the landing come before these.
    """
    rows = _with_coordinates(events, Task(0, "", "", 0), range(first, first + events.num_rows), landing)
    for name in COORDINATES:
        rows = _with(rows, name, events.column(name))
    return identified(rows)


def _with_coordinates(events: pa.Table, task: Task, positions: Sequence[int], landing: LandingPlan) -> pa.Table:
    """Add the coordinates to decoded events, in the order of change_events."""
    size, part = events.num_rows, task.part
    position = pa.array(positions, pa.int64())
    line = pc.subtract(position, part.first - 1 if part else 0)
    _refuse_beyond(line, LINES_PER_FILE, task)
    nothing = pa.nulls(size, pa.int64())
    coordinates: dict[str, pa.Array[Any] | pa.ChunkedArray[Any]] = {
        "landing": pa.repeat(pa.scalar(landing.number, pa.int64()), size),
        "row": pc.add(line, task.number * LINES_PER_FILE),
        "topic": pa.repeat(pa.scalar(task.topic, pa.string()), size),
        "partition": pa.repeat(pa.scalar(part.partition if part else None, pa.int32()), size),
        "offset": nothing if part is None else position,
        "file": pa.repeat(pa.scalar(task.file if part is None else None, pa.string()), size),
        "line": position if part is None else nothing,
        "landed_at": pa.repeat(pa.scalar(landing.at, INSTANT), size),
        "pos": _positions(events, line, task, landing),
        "tx": pa.nulls(size, pa.int64()),
        "bucket": pa.nulls(size, pa.int32()),
        "numbers": pa.nulls(size, pa.binary()),
    }
    return pa.Table.from_pydict(
        {name: coordinates[name] if name in coordinates else events.column(name) for name in CHANGE_EVENTS.names},
        CHANGE_EVENTS,
    )


def identified(events: pa.Table) -> pa.Table:
    """Return rows of change_events with transaction_id, xid, identity and the hash `tx` of the transaction filled in.

    A row without an identity gets ids that end in the position of its message in the topic or file.
    """
    unknown = pc.and_(pc.equal(events.column("kind"), pa.scalar("row")), pc.is_null(events.column("identity")))
    if pc.any(unknown).as_py():
        for name in ("transaction_id", "xid"):
            known = _joined(identity.SENT_AT, events.column(name), _sent_at(events))
            events = _with(events, name, pc.if_else(unknown, known, events.column(name)))
        identities = pc.if_else(unknown, events.column("transaction_id"), events.column("identity"))
        events = _with(events, "identity", identities)
    return _with(events, "tx", hashed(events.column("transaction_id")))


def _sent_at(events: pa.Table) -> "pa.ChunkedArray[Any]":
    """Return the position of each message as text: topic, partition and offset, or file and line."""
    topic, partition, offset, file, line = (
        events.column(name).cast(pa.string()) for name in ("topic", "partition", "offset", "file", "line")
    )
    return pc.coalesce(_joined(":", topic, partition, offset), _joined(":", file, line))


def _joined(separator: str, *texts: "pa.ChunkedArray[Any]") -> "pa.ChunkedArray[Any]":
    """Join texts row by row; null where one of them is."""
    joined: pa.ChunkedArray[Any]
    joined = pc.binary_join_element_wise(*texts, separator)  # type: ignore[call-overload]  # a text may separate them
    return joined


def _with(events: pa.Table, name: str, column: "pa.Array[Any] | pa.ChunkedArray[Any]") -> pa.Table:
    return events.set_column(events.schema.get_field_index(name), CHANGE_EVENTS.field(name), column)


def _positions(events: pa.Table, line: pa.Int64Array, task: Task, landing: LandingPlan) -> "pa.ChunkedArray[Any]":
    """Return the position of each event in its transaction; a row without one gets that of its message.

    Such rows of one transaction are ordered by landing, then file, then line.
    """
    silent = pc.and_(pc.equal(events.column("kind"), pa.scalar("row")), pc.is_null(events.column("pos")))
    if not pc.any(silent).as_py():
        return events.column("pos")
    bits = line_bits(max(len(landing.splits), task.number))
    _refuse_beyond(line, 1 << bits, task)
    if landing.number >= MOST_LANDINGS:
        raise SourceUnavailable(
            f"landing {landing.number}: rows that say nothing of their order have no positions left"
        )
    base = (landing.number << PLACE_BITS) + (task.number << bits)
    positions: pa.ChunkedArray[Any] = pc.if_else(silent, pc.add(line, base), events.column("pos"))
    return positions


def _refuse_beyond(line: pa.Int64Array, limit: int, task: Task) -> None:
    """Raise SourceUnavailable where a message would have the position of another one."""
    highest = pc.max(line).as_py()
    if highest is not None and highest >= limit:
        name = task.file if task.part is None else str(task.part)
        raise SourceUnavailable(
            f"{name}: message {highest} has no position left, at most {limit - 1} have one: split it"
        )


def with_compact_events(
    events: pa.Table,
    landing: LandingPlan,
    *,
    redecoded: bool = False,
    known: np.ndarray | None = None,
) -> pa.Table:
    """Add to a landing's rows the compact events that the buffer reads, as rows of kind `numbers`, one for each bucket.

    Args:
        events: rows of change_events.
        landing: their landing.
        redecoded: whether they replace what the buffer holds of their transactions.
        known: transactions that were finished before these events came, see `packed`.
    """
    return _with_packed(events, landing, packed(events, redecoded=redecoded, known=known))


def with_reopened(events: pa.Table, landing: LandingPlan, late: Collection[str], known: np.ndarray) -> pa.Table:
    """Add the compact events to rows of a redrive: transactions are decided again, except those in `late`.

    Args:
        events: rows of change_events.
        landing: their landing.
        late: ids of transactions that stay as they were released; their rows are late.
        known: those of `late` that the buffer may have forgotten, see `packed`.
    """
    is_late = pc.is_in(events.column("transaction_id"), pa.array(sorted(late), pa.string()))
    reopened = packed(events.filter(pc.invert(is_late)), reopen=True)
    return _with_packed(events, landing, chain(reopened, packed(events.filter(is_late), known=known)))


def with_counted_rows(events: pa.Table, landing: LandingPlan) -> pa.Table:
    """Add to rows of a loaded snapshot what the buffer reads of them: how many there are of each table."""
    return _with_packed(events, landing, of_snapshot(events))


def _with_packed(events: pa.Table, landing: LandingPlan, packed_events: Iterable[tuple[int, bytes]]) -> pa.Table:
    rows = [
        {"landing": landing.number, "row": COMPACT_ROW, "kind": "numbers", "bucket": bucket, "numbers": compact_events}
        for bucket, compact_events in packed_events
    ]
    return pa.concat_tables([events, pa.Table.from_pylist(rows, CHANGE_EVENTS)])
