"""Deliveries of one event: a source may send an event again, even after the message of an earlier one was removed."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.transactions.hashes import identities

Flags = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
KEYS = ("tx", "table", "identity", "payload", "digest")
"""The columns in which two deliveries of one event are equal."""
LOT = 250_000
"""About how many rows are compared at once to find those that were delivered twice."""


def released_positions(events: pa.Table, number: npt.NDArray[np.int64], in_time: Flags) -> Positions:
    """Return the position of each event; a redelivered row has that of the delivery that was released.

    Sources without a row order take the position from the landing, so a later delivery has another position.

    Args:
        events: landed events with the columns pos, landing and row.
        number: of each event, as `number_deliveries` returns them.
        in_time: rows that may have been released.

    Returns:
        positions; 0 of an event without one.
    """
    known = cast("pa.ChunkedArray[Any]", pc.fill_null(events.column("pos"), pa.scalar(0, pa.int64())))
    pos: Positions = known.to_numpy().copy()
    first = np.flatnonzero((number >= 0) & in_time)
    if len(first):
        landing, row = (events.column(name).to_numpy()[first] for name in ("landing", "row"))
        first = first[np.lexsort((row, landing))]
        numbers, at = np.unique(number[first], return_index=True)
        again = np.flatnonzero(np.isin(number, numbers))
        pos[again] = pos[first[at]][np.searchsorted(numbers, number[again])]
    return pos


def number_deliveries(events: pa.Table, kept: Flags, removed: Flags) -> npt.NDArray[np.int64]:
    """Give the same number to landed events that are equal in KEYS, where some are kept and some are removed.

    Args:
        events: landed events.
        kept: rows that still have their message.
        removed: rows whose message was removed.

    Returns:
        one number for each event, from 0; -1 for events that are not numbered.
    """
    numbers = np.full(events.num_rows, -1)
    lost = np.flatnonzero(removed)
    there = np.flatnonzero(kept) if len(lost) else lost
    of_lost, of_there = _numbers(events, lost), _numbers(events, there)
    there, lost = there[np.isin(of_there, of_lost)], lost[np.isin(of_lost, of_there)]
    if not len(there):
        return numbers
    chosen = pa.array(np.concatenate([there, lost]), pa.int64())
    rows = events.select([*KEYS]).take(chosen).append_column("place", chosen)
    keys = [*KEYS] if not rows.column("digest").null_count else [*KEYS[:-1]]
    of_each = rows.group_by(keys, use_threads=False).aggregate([("place", "list")]).column("place_list")
    lists = of_each.combine_chunks()
    places, groups = pc.list_flatten(lists).to_numpy(), pc.list_parent_indices(lists).to_numpy()
    # Rows of one identity may have other contents.
    is_both = np.isin(groups, groups[kept[places]]) & np.isin(groups, groups[~kept[places]])
    numbers[places[is_both]] = groups[is_both]
    return numbers


def first_of_each(events: pa.Table, among: Flags) -> Flags:
    """Flag, of some row events, those that were landed first of those that are equal in KEYS."""
    is_first = among.copy()
    for places in _alike(events, np.flatnonzero(among)):
        chosen = events.select([*KEYS, "landing", "row"]).take(pa.array(places, pa.int64()))
        chosen = chosen.append_column("index", pa.array(places))
        chosen = chosen.sort_by([("landing", "ascending"), ("row", "ascending")])
        is_first[places] = False
        is_first[_by_transaction(chosen, [*KEYS]).column("index").to_numpy()] = True
    return is_first


def _alike(events: pa.Table, places: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the places of row events that may be equal in KEYS to another one, equal ones together, LOT by LOT."""
    if not len(places):
        return
    numbers = _numbers(events, places)
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    is_next = numbers[1:] == numbers[:-1]
    is_alike = np.concatenate([is_next, [False]]) | np.concatenate([[False], is_next])
    numbers, places = numbers[is_alike], places[order[is_alike]]
    borders, begin = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1, 0
    while begin < len(places):
        later = borders[np.searchsorted(borders, begin + LOT) :]
        end = int(later[0]) if len(later) else len(places)
        yield places[begin:end]
        begin = end


def _numbers(events: pa.Table, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a number for each of some row events: equal for rows of one transaction with one identity."""
    numbers = np.empty(len(places), np.int64)
    for begin in range(0, len(places), LOT):
        some = (
            events.select(["tx", "identity"]).take(pa.array(places[begin : begin + LOT], pa.int64())).combine_chunks()
        )
        known = identities(cast("pa.StringArray", some.column("identity").combine_chunks())).fill_null(0)
        numbers[begin : begin + LOT] = some.column("tx").to_numpy() ^ known.to_numpy()
    return numbers


def _by_transaction(rows: pa.Table, keys: list[str]) -> pa.Table:
    """Return the first row of each content; a row without a digest stands for all rows that it may be equal to."""
    first = rows.group_by(keys, use_threads=False).aggregate([("index", "first")])
    first = first.rename_columns([*keys, "index"])
    undigested = pc.is_null(first.column("digest"))
    if not pc.any(undigested).as_py():
        return first
    old = first.filter(undigested)
    known = first.filter(pc.invert(undigested)).join(old.select(keys[:-1]), keys[:-1], join_type="left anti")
    return pa.concat_tables([old, known.select(first.column_names)])
