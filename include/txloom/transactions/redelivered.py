"""Deliveries of one landed event: a source may send it again, also after the message of an earlier one was removed."""

from collections.abc import Iterator
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.transactions.hashes import identities

Flags = npt.NDArray[np.bool_]
KEYS = ("tx", "table", "identity", "payload", "digest")
"""The columns in which two deliveries of one event are equal."""
LOT = 250_000
"""About how many rows are compared at once to find those that were delivered twice."""


def in_first_place(events: pa.Table) -> pa.Table:
    """Return landed events, rows at the position that their first delivery has, though its message was removed.

    Where a source says nothing of the order of its rows, that position is the one under which a row was released.
    """
    has_message = pc.is_valid(events.column("value")).to_numpy(zero_copy_only=False)
    is_row = pc.equal(events.column("kind"), pa.scalar("row")).to_numpy(zero_copy_only=False)
    number = delivered(events, is_row & has_message, is_row & ~has_message)
    places = np.flatnonzero(number >= 0)
    if not len(places):
        return events
    landing, row = (events.column(name).to_numpy()[places] for name in ("landing", "row"))
    ordered = places[np.lexsort((row, landing))]
    _, first = np.unique(number[ordered], return_index=True)
    origins = np.arange(events.num_rows)
    origins[places] = ordered[first][number[places]]
    pos = events.column_names.index("pos")
    return events.set_column(pos, events.schema.field("pos"), events.column("pos").take(pa.array(origins, pa.int64())))


def delivered(events: pa.Table, kept: Flags, removed: Flags) -> npt.NDArray[np.int64]:
    """Number landed events, equally those that are equal in KEYS, in transactions that have both kinds of rows.

    Args:
        events: landed events.
        kept: rows that still have their message.
        removed: rows whose message was removed.

    Returns:
        numbers from 0 on; -1 of all other events.
    """
    tx = events.column("tx").to_numpy()
    both = np.intersect1d(tx[kept], tx[removed]) if kept.any() and removed.any() else tx[:0]
    numbers = np.full(events.num_rows, -1)
    places = np.flatnonzero((kept | removed) & np.isin(tx, both))
    if len(places):
        chosen = events.select([*KEYS]).take(pa.array(places, pa.int64())).append_column("place", pa.array(places))
        alike = chosen.group_by([*KEYS], use_threads=False).aggregate([("place", "list")])
        of_each = alike.column("place_list").combine_chunks()
        numbers[pc.list_flatten(of_each).to_numpy()] = pc.list_parent_indices(of_each).to_numpy()
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
    numbers = np.concatenate([*_numbers(events, places)])
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


def _numbers(events: pa.Table, places: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Yield, LOT by LOT, a number for each row event: equal for rows of one transaction with one identity."""
    for begin in range(0, len(places), LOT):
        some = (
            events.select(["tx", "identity"]).take(pa.array(places[begin : begin + LOT], pa.int64())).combine_chunks()
        )
        known = identities(cast("pa.StringArray", some.column("identity").combine_chunks())).fill_null(0)
        yield some.column("tx").to_numpy() ^ known.to_numpy()


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
