"""Turn landed events into compact events, the encoded form that the buffer sees, packed by hash bucket."""

from collections.abc import Iterator
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import Counts
from txloom.config.identity import AT_POSITION, BY_CONTENT
from txloom.transactions import events as ev
from txloom.transactions.hashes import CHECK, hashed, identities, is_number

BUCKETS = 8
"""The buckets by which a landing packs its events; the stateful query's groups are these, or parts of them."""
NO_DIGEST = bytes(16)
PACKED = 32_768
"""The most events packed into one value, which is then about a megabyte."""


def packed(
    events: pa.Table, *, reopen: bool = False, redecoded: bool = False, known: np.ndarray | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield (bucket, packed compact events) for rows of change_events, without poison and unwatched rows.

    Args:
        events: Rows in the schema of change_events.
        reopen: Whether the transactions of these events are to be decided again.
        redecoded: Whether these events replace what is held of their transactions. Each transaction is marked, also one
            of which no table is watched any more.
        known: Transactions that were finished before, as `memory.AT_POSITION`, each once. A KNOWN record carries the
            csn of that time, which distinguishes a later transaction with the same id.
    """
    numbers = compact_events_of(events)
    if redecoded:
        numbers = ev.concatenate([numbers, _redecoded(events)])
    if reopen:
        numbers = ev.concatenate([numbers, _mark_rows(numbers, ev.REOPEN)])
    elif known is not None and len(known):
        marks, known = _mark_rows(numbers[np.isin(numbers["tx"], known["tx"])], ev.KNOWN), np.sort(known, order="tx")
        marks["csn"] = known["csn"][np.searchsorted(known["tx"], marks["tx"])]
        numbers = ev.concatenate([numbers, marks])
    buckets = numbers["tx"] % BUCKETS
    order = np.argsort(buckets, kind="stable")
    bounds = np.searchsorted(buckets[order], np.arange(BUCKETS + 1))
    for bucket in range(BUCKETS):
        of_transaction = numbers.take(order[bounds[bucket] : bounds[bucket + 1]])
        for start in range(0, len(of_transaction), PACKED):
            yield bucket, ev.to_bytes(of_transaction[start : start + PACKED])


def split(bucket: int, packed_events: bytes, parts: int) -> Iterator[tuple[int, bytes]]:
    """Yield (bucket, packed compact events) of the parts of a bucket, each of which has all events of a transaction.

    Args:
        bucket: by which a landing packed the events.
        packed_events: what `packed` yielded for it.
        parts: how many parts each bucket has; the parts of bucket 1 are 1, 1 + BUCKETS, 1 + 2 * BUCKETS and so on.
    """
    if parts == 1:
        yield bucket, packed_events
        return
    numbers = ev.from_bytes(packed_events, ev.EVENT)
    places = numbers["tx"] // BUCKETS % parts
    order = np.argsort(places, kind="stable")
    bounds = np.searchsorted(places[order], np.arange(parts + 1))
    for part in range(parts):
        some = numbers.take(order[bounds[part] : bounds[part + 1]])
        if len(some):
            yield bucket + BUCKETS * part, ev.to_bytes(some)


def of_snapshot(events: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Yield, as `packed` does, one record of the kind ROWS for each table of rows that a loaded snapshot has.

    No other event can be one of these: txloom wrote them, each once, in one commit with what counts them. The buffer
    has only to count them.

    Args:
        events: rows of one transaction in the schema of change_events, all of them row events of watched tables.
    """
    if not events.num_rows:
        return
    counted = events.group_by("table", use_threads=False).aggregate([("row", "min"), ("row", "count")])
    first = events.filter(pc.is_in(events.column("row"), counted.column("row_min").combine_chunks()))
    rows = _base(first, ev.ROWS)
    rows["table"] = hashed(first.column("table"))
    rows["identity"] = identities(_identities(first))
    places = pc.index_in(first.column("table"), value_set=counted.column("table").combine_chunks())
    rows["count"] = counted.column("row_count").take(places).to_numpy()
    yield int(rows["tx"][0] % BUCKETS), ev.to_bytes(rows)


def _redecoded(events: pa.Table) -> np.ndarray:
    """Return one record of the kind REDECODED for each transaction of rows of change_events."""
    events = events.filter(pc.is_valid(events.column("tx")))
    return _mark_rows(_base(events, ev.REDECODED), ev.REDECODED)


def _mark_rows(numbers: np.ndarray, kind: int) -> np.ndarray:
    """Return one record of a kind for each transaction in compact events, without table, identity and counts."""
    _, first = np.unique(numbers["tx"], return_index=True)
    marks: np.ndarray = numbers[first].copy()
    marks["kind"] = kind
    for name in ("table", "identity", "payload", "count", "run"):
        marks[name] = 0
    return marks


def compact_events_of(events: pa.Table) -> np.ndarray:
    """Return one record for each row event of a watched table, for each metadata message, and for each of its counts.

    A row that is a whole transaction by itself has the counts in `expected`; it also gets a metadata record, whose
    `run` is `events.BROUGHT`.
    """
    kind = events.column("kind")
    rows = events.filter(pc.and_(pc.equal(kind, pa.scalar("row")), pc.is_valid(events.column("table"))))
    metadata = events.filter(pc.equal(kind, pa.scalar("metadata")))
    alone = rows.filter(pc.is_valid(rows.column("expected")))
    brought, counts = _metadata(alone)
    brought["run"] = ev.BROUGHT
    return ev.concatenate([_rows(rows), *_metadata(metadata), brought, counts])


def _base(events: pa.Table, kind: int) -> np.ndarray:
    base = np.zeros(events.num_rows, ev.EVENT)
    ids = events.column("transaction_id")
    base["kind"] = kind
    base["tx"] = events.column("tx")
    base["check"] = hashed(ids, CHECK)
    base["csn"] = events.column("csn").fill_null(pa.scalar(-1))
    for name in ("landing", "row"):
        base[name] = events.column(name)
    base["at"] = events.column("landed_at").cast(pa.int64())
    return base


def _rows(events: pa.Table) -> np.ndarray:
    compact = _base(events, ev.ROW)
    compact["table"] = hashed(events.column("table"))
    texts = _identities(events)
    compact["identity"] = identities(texts)
    compact["former"] = _former(texts)
    compact["count"] = positions_of(events)
    compact["payload"] = events.column("payload").fill_null(pa.scalar(0))
    if "digest" in events.column_names:
        compact["high"], compact["low"] = _halves(events)
    if "producer_run" in events.column_names:
        compact["run"] = hashed(events.column("producer_run")).fill_null(0)
    return compact


def _identities(events: pa.Table) -> pa.StringArray:
    return cast("pa.StringArray", events.column("identity").combine_chunks())


def positions_of(events: pa.Table) -> np.ndarray:
    """Return the rows' positions in their source's log, which lie before their transaction's csn.

    A row with a csn, and a row whose identity names no position, has 0.
    """
    matches = pc.extract_regex(events.column("identity"), AT_POSITION.replace("(", "(?P<place>"))
    position = pc.struct_field(matches, "place").cast(pa.int64())
    unknown = pc.and_(pc.equal(events.column("kind"), pa.scalar("row")), pc.is_null(events.column("csn")))
    positions: np.ndarray = pc.if_else(unknown, pc.fill_null(position, 0), 0).to_numpy()
    return positions


def _former(texts: pa.StringArray) -> np.ndarray:
    """Return the hashes of identities without what rows say, as an older version wrote them; else 0."""
    before = pc.replace_substring_regex(texts, BY_CONTENT, "")
    changed = pc.not_equal(before, texts)
    hashes: np.ndarray = hashed(pc.if_else(changed, before, None)).fill_null(0).to_numpy()
    return hashes


def _halves(events: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the digests of rows as two numbers each, the first not negative; 0 and 0 for none.

    An identity that is not a number is compared by a 64-bit hash, so a second hash of it is mixed into the digest: if
    two identities share the first hash, their rows are still not taken for one event that was delivered twice.
    """
    digests = cast("list[bytes]", events.column("digest").fill_null(pa.scalar(NO_DIGEST)).to_pylist())
    high, low = np.frombuffer(b"".join(digests), ">i8").reshape(-1, 2).astype(np.int64).T
    texts = _identities(events)
    named = pc.and_(pc.is_valid(events.column("digest")), pc.invert(is_number(texts)))
    if pc.any(named).as_py():
        low = low ^ pc.if_else(named, hashed(pc.if_else(named, texts, ""), CHECK), 0).to_numpy()
    return high & ev.LARGEST, low


def _metadata(events: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    compact = _base(events, ev.METADATA)
    counts = cast("Counts", events.column("expected").combine_chunks())
    sizes = np.diff(counts.offsets.to_numpy())
    entries = np.repeat(compact, sizes)
    first = counts.offsets[0].as_py() if len(counts) else 0
    table = hashed(cast("pa.StringArray", counts.keys.slice(first, len(entries))))
    number = counts.items.slice(first, len(entries)).to_numpy(zero_copy_only=False)
    entries["kind"] = ev.EXPECTED
    entries["table"] = entries["identity"] = table
    entries["payload"] = entries["count"] = number
    compact["count"] = events.column("event_count").fill_null(pa.scalar(0))
    compact["payload"] = _fingerprints(sizes, entries)
    return compact, entries


def _fingerprints(sizes: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Return for each metadata message a number of its counts that does not depend on their order."""
    mixed = ev.mixed(entries["table"], entries["count"])
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    ends = np.cumsum(sizes)
    fingerprints: np.ndarray = (sums[ends] - sums[ends - sizes]).astype(np.int64)
    return fingerprints
