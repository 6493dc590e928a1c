"""Column nulling: a column that the source dropped is null from then on, in every row.

An insert that lacks a declared column shows that the column was dropped, so a column that is added again never shows
its earlier values (docs/architecture.md, promise 12). Nulling touches only the rows that have a value of the column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.current.folding.effects import Effects
from txloom.current.folding.encoded import CLEARED, ROW, CompactChanges, Flags, Ints
from txloom.current.folding.value_sources import Images

Filled = Mapping[int, Flags]
"""For each column that some change nulls: which sources have a value of it."""


def filled(numbers: CompactChanges, images: Images) -> Filled:
    """Return for each column that some change nulls which sources have a value of it."""
    return {int(column): images.filled(images.plain[column]) for column in np.unique(numbers.cleared.column)}


def null_columns(effects: Effects, numbers: CompactChanges, values: Filled, chained: Flags) -> Effects:
    """Return the effects on keys that never change, with dropped columns nulled.

    Rows that no other change touches are added if they have a value of such a column.
    """
    if not values:
        return effects
    untouched = _untouched(effects, numbers, chained)
    key, last, source = (
        np.concatenate([before, cleared])
        for before, cleared in (
            (effects.key, numbers.key[untouched]),
            (effects.last, untouched),
            (effects.source, untouched),
        )
    )
    columns, places, instead = [effects.column], [effects.position], [effects.instead]
    for column, has_value in values.items():
        nulled = source.copy()
        of_column = effects.column == column
        nulled[effects.position[of_column]] = effects.instead[of_column]
        clears = _nullings(numbers, column)
        following = np.searchsorted(numbers.rank[clears], numbers.rank[_teller(nulled, numbers)], "right")
        nulled_rows = np.flatnonzero((source >= 0) & (nulled >= 0) & (following < len(clears)) & has_value[nulled])
        nulling = clears[following[nulled_rows]]
        last[nulled_rows] = np.where(
            numbers.rank[nulling] > numbers.rank[last[nulled_rows]], nulling, last[nulled_rows]
        )
        columns.append(np.full(len(nulled_rows), column))
        places.append(nulled_rows)
        instead.append(np.full(len(nulled_rows), CLEARED))
    cleared = Effects(key, last, source, *(np.concatenate(parts) for parts in (columns, places, instead)))
    return _only(cleared, numbers.op[last] != ROW)


def _nullings(numbers: CompactChanges, column: int) -> Ints:
    """Return the events that null a column, in commit order."""
    events = numbers.cleared.event[numbers.cleared.column == column]
    ordered: Ints = events[np.argsort(numbers.rank[events])]
    return ordered


def _teller(source: Ints, numbers: CompactChanges) -> Ints:
    """Return the events that sources belong to; the image before a change belongs to that change."""
    events, changes = len(numbers.key), len(numbers.key) - numbers.rows
    return np.where(source >= events, source - changes, np.maximum(source, 0))


def _untouched(effects: Effects, numbers: CompactChanges, chained: Flags) -> Ints:
    """Return the current rows that no effect touches, without those of chained keys."""
    touched = chained.copy()
    touched[effects.key] = True
    rows = np.flatnonzero(numbers.op == ROW)
    return rows[~touched[numbers.key[rows]]]


def _only(effects: Effects, keep: Flags) -> Effects:
    """Return the effects that `keep` flags."""
    position = np.cumsum(keep) - 1
    inside = keep[effects.position]
    key, last, source = (values[keep] for values in (effects.key, effects.last, effects.source))
    return Effects(
        key, last, source, effects.column[inside], position[effects.position[inside]], effects.instead[inside]
    )


@dataclass(frozen=True)
class Gone:
    """The change since which the source lacks a column."""

    csn: int
    pos: int
    xid: str | None


GoneColumns = Mapping[str, Mapping[str, Gone]]
"""By table, the columns that the source dropped."""


@dataclass(frozen=True)
class Columns:
    """What changes show of a table's columns.

    gone: the columns that the source lacks after the changes. clearing: the columns that the changes null.
    """

    gone: dict[str, Gone]
    clearing: list[str]
    flapping: dict[str, Gone] = field(default_factory=dict)
    """Columns that were dropped more than once, with the last drop."""


def columns_of(changes: pa.Table, gone: Mapping[str, Gone]) -> Columns:
    """Return which columns the source lacks after changes, and which the changes null, in commit order.

    changes: NULLING_COLUMNS, and for each column that is absent or gone either its values or a column that is null
    where it has none; a column is back once a change has a value of it. Columns that the changes do not have are not
    declared any more. gone: the columns that were gone before.
    """
    listed = cast("list[str]", pc.list_flatten(changes.column("_txloom_absent")).unique().to_pylist())
    lacking = [name for name in listed if name in changes.column_names]
    after, clearing, flapping = dict(gone), list[str](), dict[str, Gone]()
    for name in sorted({*lacking, *gone}):
        lists_absent = pc.is_valid(changes.column(name))
        lacks = _lacks(changes, name)
        rows = changes.select(["_txloom_csn", "_txloom_pos", "_txloom_xid"]).append_column("lacks", lacks)
        ordered = rows.filter(pc.or_(lists_absent, lacks)).sort_by(
            [("_txloom_csn", "ascending"), ("_txloom_pos", "ascending"), ("lacks", "ascending")]
        )
        lacking_now = ordered.column("lacks").to_numpy()
        flips = np.flatnonzero(lacking_now != np.append(name in gone, lacking_now[:-1])[: len(lacking_now)])
        went = flips[lacking_now[flips]]
        if len(went):
            clearing.append(name)
        if len(flips) and not lacking_now[-1]:
            after.pop(name, None)
        for position in went[-1:].tolist():
            row = ordered.slice(position, 1).to_pylist()[0]
            last = Gone(row["_txloom_csn"], row["_txloom_pos"], row["_txloom_xid"])
            if lacking_now[-1]:
                after[name] = last
            if len(went) > 1 or name in gone:
                flapping[name] = last
    return Columns(after, clearing, flapping)


def _lacks(changes: pa.Table, name: str) -> pa.BooleanArray:
    lists = changes.column("_txloom_absent").combine_chunks()
    lacks = np.zeros(len(lists), np.bool_)
    is_name = pc.equal(pc.list_flatten(lists), pa.scalar(name))
    lacks[pc.list_parent_indices(lists).filter(is_name).to_numpy()] = True
    return pa.array(lacks, pa.bool_())


def is_of_all_rows(changes: pa.Table) -> "pa.ChunkedArray[pa.BooleanScalar]":
    """Return which changes touch all rows of a table: truncates, and inserts and nullings that name lacking columns."""
    truncates = pc.equal(changes.column("_txloom_op"), pa.scalar("T"))
    either = pc.or_(truncates, pc.is_valid(changes.column("_txloom_absent")))
    return cast("pa.ChunkedArray[pa.BooleanScalar]", either)


def of_all_rows(changes: pa.Table) -> pa.Table:
    """Return the changes that touch all rows of a table: truncates, and a nulling for inserts that lack columns.

    Of the inserts of one transaction that lack the same columns, only the first and the last are returned: values
    between them are nulled by the last. A fold of only some keys must include these changes too. Nullings among the
    changes count as such inserts, so that what comes of parts of the changes can be given once more.
    """
    truncates = changes.filter(pc.equal(changes.column("_txloom_op"), pa.scalar("T")))
    lacking = changes.filter(pc.is_valid(changes.column("_txloom_absent")))
    lacking = lacking.sort_by([("_txloom_csn", "ascending"), ("_txloom_pos", "ascending")])
    rows = lacking.select(NULLING_COLUMNS).to_pylist()
    first = {_lacked(row): row for row in reversed(rows)}
    last = {_lacked(row): row for row in rows}
    clears = [*first.values(), *(row for lacked, row in last.items() if row is not first[lacked])]
    return pa.concat_tables([truncates, _nulling_rows(clears, changes.schema)])


def _lacked(row: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    return row["_txloom_csn"], tuple(row["_txloom_absent"])


NULLING_COLUMNS = ("_txloom_csn", "_txloom_pos", "_txloom_xid", "_txloom_absent", "_txloom_release")


def _nulling_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([{**row, "_txloom_op": "C"} for row in rows], schema)
