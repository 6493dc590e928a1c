"""Compact events: the form in which the buffer sees change events, one numpy record of numbers each.

Payloads stay in change_events; the buffer needs only the transaction, the table, the identity, a digest of the content
and the landing. That keeps the state small however large the rows are.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

ROW = 0
"""A row event of a watched table."""
METADATA = 1
"""The transaction's metadata came; `count` is its top-level number, `payload` a fingerprint of all counts."""
EXPECTED = 2
"""One table's count from the metadata; `identity` is the table again."""
CLOCK = 3
"""A landing is over; `at` is its time, `csn` the low watermark of the source. It follows all events of its landing."""
REPEATED = 4
"""Only in state: the position of a dropped duplicate of an unfinished transaction."""

BROUGHT = 1
"""`run` of metadata that came with a row which is whole by itself, not as a separate event."""

REOPEN = 5
"""A dead transaction is decided again from the events of this landing: whole, or dead again at the landing's clock."""

KNOWN = 7
"""A transaction that has events in this landing was finished before it, which the buffer may have forgotten."""

DECIDED = 8
"""With a clock: later landings name, with KNOWN, what was finished by the landings up to `count`."""

ROWS = 9
"""`count` row events of one table of a loaded snapshot, which txloom landed in one commit, each once."""

REDECODED = 10
"""A landing decoded an undecided transaction again, by a changed declaration: its events replace the held ones."""

UNREADABLE_RANGE = 6
"""With a clock: events of unknown transactions between the csns `csn` and `count` could not be read."""
NOWHERE = -1
"""`csn` of a clock while some partition of its source has not shown any csn."""
LARGEST = 2**63 - 1
ANYWHERE = LARGEST
"""`csn` of a clock where no partition waits for another."""

IDENTITY = ("tx", "kind", "table", "identity")
"""What two deliveries of one event have in common."""
COMPARED = ("high", "low")
"""The 128-bit digest of an event's content; 0 where it was landed without a digest, or is no row."""
FIELDS = (
    *("kind", "tx", "check", "csn", "table", "identity", "payload", *COMPARED),
    *("count", "landing", "row", "at", "run", "former"),
)
EVENT = np.dtype([(name, "i1" if name == "kind" else "i8") for name in FIELDS])
"""kind: one of the constants above; tx and check: two hashes of the transaction's id; csn (-1: not known yet); table:
hash of its name; identity: hash of what survives a redelivery; payload: checksum of the event's content; high and low:
its 128-bit digest; count: for a row without a csn its position in the source's log, where the identity names it;
for ROWS how many they are;
landing and row: the event's position in change_events; at: arrival in microseconds since the epoch; run: hash of the
producer's run, 0 if not known; former: hash of the row's identity as an older version of txloom wrote it, else 0."""

FINISHED = np.dtype([("tx", "i8"), ("check", "i8"), ("at", "i8"), ("csn", "i8"), ("landing", "i8")])
"""A remembered transaction: two hashes of its id, when it was finished, its csn (not above 0: not known), and the
landing that finished it (0: not known)."""


def no_events() -> np.ndarray:
    """Return an empty event array."""
    return np.empty(0, EVENT)


def clocks(landings: np.ndarray, at: np.ndarray, reached: np.ndarray | int = ANYWHERE) -> np.ndarray:
    """Return the clocks of landings; at: their times in microseconds; reached: the source's low watermark (csn)."""
    rows = np.zeros(len(landings), EVENT)
    rows["kind"] = CLOCK
    rows["landing"], rows["at"], rows["row"], rows["csn"] = landings, at, -1, reached
    return rows


def unreadable_ranges(landing: int, bounds: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the records of a landing's unreadable ranges; bounds: the first and the last csn of each."""
    rows = np.zeros(len(bounds), EVENT)
    rows["kind"], rows["landing"], rows["row"] = UNREADABLE_RANGE, landing, -1
    rows["csn"], rows["count"] = [first for first, _ in bounds], [last for _, last in bounds]
    return rows


def decided(landing: int, until: int) -> np.ndarray:
    """Return the record which says that landings up to `until` were decided when a landing was over."""
    row = np.zeros(1, EVENT)
    row["kind"], row["landing"], row["row"], row["count"] = DECIDED, landing, -1, until
    return row


def row_counts(events: np.ndarray) -> np.ndarray:
    """Return how many row events each record stands for: ROW for one, ROWS for as many as it counts, others for none.

    >>> events = np.zeros(3, EVENT)
    >>> events["kind"], events["count"] = [ROW, ROWS, METADATA], [77, 5, 6]
    >>> row_counts(events).tolist()
    [1, 5, 0]
    """
    kind = events["kind"]
    counts: np.ndarray = np.where(kind == ROWS, events["count"], kind == ROW)
    return counts


def mixed(tables: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return a number for each table's count; the sum over a metadata message is its fingerprint."""
    hashed: np.ndarray = (tables.astype(np.uint64) | np.uint64(1)) * (
        counts.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    )
    return hashed


def to_bytes(records: np.ndarray) -> bytes:
    """Pack an array of records for the state store, as a compressed Arrow IPC stream."""
    names = records.dtype.names or ()
    return pack_rows(pa.table({name: pa.array(np.ascontiguousarray(records[name])) for name in names}))


def pack_rows(rows: pa.Table) -> bytes:
    """Pack rows as a compressed Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack_rows(packed: bytes) -> pa.Table:
    """Unpack what `pack_rows` packed."""
    with pa.ipc.open_stream(pa.py_buffer(packed)) as reader:
        return reader.read_all()


def from_bytes(packed: bytes, dtype: np.dtype) -> np.ndarray:
    """Unpack what `to_bytes` packed; a field that an older version did not write is 0."""
    return unpacked([packed], np.empty(0, dtype))


def unpacked(values: Iterable[bytes], others: np.ndarray) -> np.ndarray:
    """Unpack what `to_bytes` packed, and return it as one array, with other records of its kind behind it.

    Each number is copied once: joining arrays of millions of records takes as long as unpacking them.
    """
    tables = [unpack_rows(packed) for packed in values]
    size = sum(table.num_rows for table in tables)
    records = np.empty(size + len(others), others.dtype)
    records[size:] = others
    first = 0
    for table in tables:
        part = records[first : first + table.num_rows]
        for name in others.dtype.names or ():
            part[name] = table.column(name).to_numpy() if name in table.column_names else 0
        first += table.num_rows
    return records


def groups(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for sorted keys, the start of each run of equal keys and the run number of every element.

    >>> starts, number = groups(np.array([7, 7, 9]))
    >>> starts.tolist(), number.tolist()
    ([0, 2], [0, 0, 1])
    """
    new = np.empty(len(keys), bool)
    new[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return np.flatnonzero(new), np.cumsum(new) - 1


def chosen(records: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """Return the records that `flags` names; neighbouring ones as a view, because a copy of millions takes memory.

    >>> chosen(np.array([1, 2, 3, 4]), np.array([False, True, True, False])).tolist()
    [2, 3]
    """
    first, last = (int(flags.argmax()), len(flags) - int(flags[::-1].argmax())) if flags.any() else (0, 0)
    some: np.ndarray = records[first:last]
    return some if flags[first:last].all() else _raw(records)[flags].view(records.dtype)


def _raw(records: np.ndarray) -> np.ndarray:
    """Return a view of records as bytes: numpy copies them as a whole, and fields one by one in five times as long."""
    raw: np.ndarray = records.view(np.dtype((np.void, records.dtype.itemsize)))
    return raw


def ordered(records: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return records in ascending order of some fields, the first one most significant; equal ones stay in order."""
    columns = [records[name] for name in names]
    varying = [column for column in columns if len(column) and (column != column[0]).any()]
    if not varying or _are_ordered(varying):
        return records
    order = np.argsort(varying[0], kind="stable") if len(varying) == 1 else np.lexsort(varying[::-1])
    return records.take(order)


def _are_ordered(columns: Sequence[np.ndarray]) -> bool:
    """Return whether records are in ascending order of some columns, the first one most significant."""
    tied = np.ones(len(columns[0]) - 1, bool)
    for column in columns:
        if (tied & (column[1:] < column[:-1])).any():
            return False
        tied &= column[1:] == column[:-1]
    return True


def merged(events: np.ndarray, following: np.ndarray) -> np.ndarray:
    """Return events in the order of IDENTITY together with others, which follow all events of their transaction.

    Where their kinds are above those of all events, the result is in this order too.
    """
    if not len(following):
        return events
    following = ordered(following, IDENTITY)
    at = np.searchsorted(events["tx"], following["tx"], side="right") + np.arange(len(following))
    both = np.empty(len(events) + len(following), events.dtype)
    is_following = np.zeros(len(both), bool)
    is_following[at] = True
    raw = _raw(both)
    raw[is_following], raw[~is_following] = _raw(following), _raw(events)
    return both


def repeats(records: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return which records have the same values in some fields as the one before them."""
    same = np.zeros(len(records), bool)
    same[1:] = True
    for name in names:
        same[1:] &= records[name][1:] == records[name][:-1]
    return same


def concatenate(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Join arrays of one kind of records; joining none gives no events, and a part that alone has any is not copied."""
    some = [part for part in parts if len(part)] or parts[:1] or [no_events()]
    if len(some) == 1:
        return some[0]
    return np.concatenate([_raw(part) for part in some]).view(some[0].dtype)
