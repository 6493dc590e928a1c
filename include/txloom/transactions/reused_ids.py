"""Find the transaction of an event where transaction ids are reused, as PostgreSQL does when its counter wraps around.

A transaction's events lie in the log up to its csn, which is in its metadata. So an event belongs to the first
transaction of its id whose csn is not before the event's position.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.config.identity import AT_POSITION
from txloom.transactions.events import NOWHERE

Event = Mapping[str, Any]
COLUMNS = ("transaction_id", "kind", "csn", "identity")
"""The columns of an event that this module reads."""
Ends = Mapping[str, Sequence[int]]
ENDS = pa.list_(pa.struct([("csn", pa.int64()), ("is_released", pa.bool_())]))
"""The transactions of one id, in ascending order of their csns."""
REUSED, BEFORE = "is_reused", "csn_before"
"""Columns of transactions: whether another one has the id, and the csn of the one before it; NOWHERE: there is none."""
_AT_POSITION = re.compile(AT_POSITION)
_POSITION_GROUP = AT_POSITION.replace("(", "(?P<at>")


def at(event: Event) -> int:
    """Return the position in the log that an event's transaction reaches at least: its csn, or the row's position.

    Without either it is 0.
    """
    if event["csn"] is not None:
        return int(event["csn"])
    match = _AT_POSITION.match(event["identity"] or "") if event["kind"] == "row" else None
    return int(match[1]) if match else 0


def is_behind(events: Iterable[Event], end: int) -> bool:
    """Return whether events belong to a later transaction than the one of their id that ended at a csn.

    They do if their metadata has a higher csn, or if a row without a csn lies after it. Rows with a csn are ignored.
    """
    return any(at(event) > end for event in events if event["kind"] == "metadata" or event["csn"] is None)


def ends(events: Iterable[Event]) -> dict[str, list[int]]:
    """Return the csns in metadata by transaction id, in ascending order."""
    csns: dict[str, set[int]] = {}
    for event in events:
        if event["kind"] == "metadata" and event["csn"] is not None:
            csns.setdefault(event["transaction_id"], set()).add(event["csn"])
    return {name: sorted(csns_of) for name, csns_of in csns.items()}


def named(event: Event, ends: Ends) -> tuple[str, int | None]:
    """Return the id and the csn of an event's transaction; the csn is None while no metadata has it.

    ends: by transaction id the csns in ascending order, see `ends`.

    >>> row = {"transaction_id": "7", "kind": "row", "csn": None, "identity": "120:t:c:1"}
    >>> named(row, {"7": [100, 160]}), named(row, {"7": [100]}), named(row, {})
    (('7', 160), ('7', None), ('7', None))
    """
    csns = ends.get(event["transaction_id"], ())
    index = bisect_left(csns, at(event))
    return event["transaction_id"], csns[index] if index < len(csns) else None


def split(events: Sequence[Event]) -> dict[tuple[str, int | None], list[Event]]:
    """Group events by the id and the csn of their transactions, see `named`."""
    known, groups = ends(events), dict[tuple[str, int | None], list[Event]]()
    for event in events:
        groups.setdefault(named(event, known), []).append(event)
    return groups


def turns(events: Sequence[Event]) -> list[int]:
    """Return for each event which transaction of its id it belongs to, counted from 0.

    It is 0 for all events of an id where some row has no position, since its transactions cannot be distinguished.
    """
    silent = {event["transaction_id"] for event in events if event["kind"] == "row" and not at(event)}
    known = {name: csns for name, csns in ends(events).items() if name not in silent}
    return [bisect_left(known.get(event["transaction_id"], ()), at(event)) for event in events]


def are_released(events: pa.Table) -> np.ndarray:
    """Return for each row event whether the transaction that it belongs to, see `named`, was released.

    An event without a csn and a position counts as released if all transactions of its id were: they cannot be
    distinguished.

    Args:
        events: rows with the columns COLUMNS, and `ends` (ENDS): the transactions of the event's id, at least one.
    """
    position = positions(events)
    ends = cast("pa.ListArray[Any]", events.column("ends").combine_chunks())
    csn, is_released = (pc.struct_field(ends.flatten(), name).to_numpy(False) for name in ("csn", "is_released"))
    lengths = pc.list_value_length(ends).to_numpy()
    owner = np.repeat(np.arange(len(lengths)), lengths)
    index = np.bincount(owner[csn < position[owner]], minlength=len(lengths))
    chosen = np.minimum(np.cumsum(lengths) - lengths + index, len(csn) - 1)
    is_known = (index < lengths) & is_released[chosen].astype(bool)
    is_open = np.bincount(owner[~is_released.astype(bool)], minlength=len(lengths)) > 0
    released: np.ndarray = np.where(position > 0, is_known, ~is_open)
    return released


def positions(events: pa.Table) -> np.ndarray:
    """Return what `at` returns for each of some events; events: with the columns csn and identity."""
    groups = pc.extract_regex(events.column("identity"), _POSITION_GROUP)
    in_identity = pc.struct_field(groups, "at").cast(pa.int64())
    return cast("np.ndarray", pc.coalesce(events.column("csn"), in_identity, pa.scalar(0, pa.int64())).to_numpy())


def with_reuse(chosen: pa.Table, known: Iterable[pa.Table]) -> pa.Table:
    """Return transactions with the columns REUSED and BEFORE.

    Two with one id and one csn cannot be distinguished: BEFORE of both is their csn, so that no event is theirs.

    Args:
        chosen: transactions, with the hash of their id (tx) and csn.
        known: tx and csn of all transactions among which another one may have the id.
    """
    mine = chosen.select(["tx", "csn"])
    pairs = pa.concat_tables([mine, *known]).group_by(["tx", "csn"]).aggregate([])
    ids = (pc.value_counts(each.column("tx").combine_chunks()) for each in (mine, pairs))
    several = [each.field("values").filter(pc.greater(each.field("counts"), pa.scalar(1))) for each in ids]
    ids_again = pa.concat_arrays(several)
    reused = pc.is_in(chosen.column("tx"), value_set=ids_again).to_numpy()
    csns: dict[int, list[int]] = {}
    for row in pairs.filter(pc.is_in(pairs.column("tx"), value_set=ids_again)).to_pylist():
        csns.setdefault(row["tx"], []).append(row["csn"])
    places = np.flatnonzero(reused)
    rows = mine.take(places).to_pylist()
    times = Counter((row["tx"], row["csn"]) for row in rows)
    before = np.full(chosen.num_rows, NOWHERE, np.int64)
    for place, (tx, csn) in zip(places, (row.values() for row in rows), strict=True):
        earlier = [each for each in csns[tx] if each < csn]
        before[place] = csn if times[tx, csn] > 1 else max(earlier, default=NOWHERE)
    return chosen.append_column(REUSED, pa.array(reused)).append_column(BEFORE, pa.array(before))


def in_turn(chosen: pa.Table) -> Iterator[pa.Table]:
    """Yield transactions so that no two of them have one id; chosen: the transactions, ordered by tx."""
    tx = chosen.column("tx").to_numpy()
    _, first, at = np.unique(tx, return_index=True, return_inverse=True)
    turn = np.arange(len(tx)) - first[at.reshape(-1)]
    for number in range(turn.max(initial=-1) + 1):
        yield chosen.filter(pa.array(turn == number))


def without_others(chosen: pa.Table, events: pa.Table) -> pa.Table:
    """Return events without those of other transactions that have the ids.

    Of an id that was used again, an event that has neither a csn nor a position is left out. A row's csn may be above
    that of its transaction, which is the csn of the last watched row where only rows tell it.

    Args:
        chosen: the transactions, with REUSED and BEFORE, ordered by tx; no two have one id. Without a csn: NOWHERE.
        events: events of their ids.
    """
    place = np.searchsorted(chosen.column("tx").to_numpy(), events.column("tx").to_numpy())
    reused = chosen.column(REUSED).to_numpy()[place]
    is_placed = pc.and_(pc.equal(events.column("kind"), pa.scalar("row")), pc.is_valid(events.column("csn")))
    doubtful = np.flatnonzero(reused | ~is_placed.to_numpy())
    before, csn = (chosen.column(name).to_numpy()[place[doubtful]] for name in (BEFORE, "csn"))
    position = positions(events.take(doubtful))
    is_later = (position > csn) & (csn != NOWHERE)
    is_earlier = reused[doubtful] & (position <= np.maximum(before, 0))
    kept = np.ones(events.num_rows, np.bool_)
    kept[doubtful] = ~is_later & ~is_earlier
    return events.filter(pa.array(kept))
