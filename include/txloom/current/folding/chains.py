"""Fold changes on keys that change, one event after the other: a key change moves a row from one key to another.

Inside a transaction two rows may have one key for a while, as a deferrable unique constraint allows. Both are kept
then, and the row that reached the key first leaves it first. That is right whenever keys are unique again after every
statement: a statement changes each row once, so a row that leaves a key had it before the statement began. When the
transaction (its csn) ends, only the row that reached the key last keeps it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from txloom.current.folding.column_nulling import Filled
from txloom.current.folding.effects import Effects
from txloom.current.folding.encoded import (
    CLEARED,
    DELETE,
    INSERT,
    NOWHERE,
    NULL_COLUMN,
    ROW,
    TRUNCATE,
    CompactChanges,
    Flags,
    Ints,
)
from txloom.current.folding.latest import Known

Row = tuple[int, Mapping[int, int]]
"""The source of a row's values, and by column number the other sources that some columns come from."""
COMPLETE: Mapping[int, int] = {}


@dataclass
class ChainRows:
    """The rows by key during a fold; `waiting` holds rows that had the key earlier and have not left it yet."""

    by_key: dict[int, Row] = field(default_factory=dict)
    waiting: dict[int, list[Row]] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    """Columns that were nulled and of which no row has got a value since."""

    def take(self, key: int) -> Row | None:
        """Remove and return the row that reached a key first, None without any."""
        if key not in self.waiting:
            return self.by_key.pop(key, None)
        first = self.waiting[key].pop(0)
        if not self.waiting[key]:
            del self.waiting[key]
        return first

    def see(self, key: int) -> Row | None:
        """Return the row that reached a key first, None without any."""
        return self.waiting[key][0] if key in self.waiting else self.by_key.get(key)

    def arrive(self, key: int, row: Row) -> None:
        """Add a row to those at a key."""
        if key in self.by_key:
            self.waiting.setdefault(key, []).append(self.by_key[key])
        self.by_key[key] = row

    def change(self, key: int, row: Row) -> None:
        """Replace the row that reached a key first."""
        if key in self.waiting:
            self.waiting[key][0] = row
        else:
            self.by_key[key] = row

    def clear(self) -> None:
        """Remove all rows."""
        self.by_key.clear()
        self.waiting.clear()

    def lose(self, column: int, filled: Flags) -> list[int]:
        """Make a column null in every row that has a value of it, and return the keys of these rows.

        filled: which sources have a value of the column.
        """
        if column in self.lost:
            return []

        def holds(row: Row) -> bool:
            return _holds(row, column, filled)

        self.lost.add(column)
        touched = []
        for key, row in self.by_key.items():
            if holds(row):
                self.by_key[key] = row[0], {**row[1], column: CLEARED}
                touched.append(key)
        for key, rows in self.waiting.items():
            touched += [key] * any(map(holds, rows))
            rows[:] = [(row[0], {**row[1], column: CLEARED}) if holds(row) else row for row in rows]
        return touched

    def put(self, key: int, row: Row) -> None:
        """Replace all rows at a key by one."""
        self.waiting.pop(key, None)
        self.by_key[key] = row

    def regain(self, row: Row, values: Filled) -> None:
        """Remove from `lost` the columns of which a new row has a value."""
        if self.lost:
            self.lost -= {column for column in self.lost if _holds(row, column, values[column])}


def _holds(row: Row, column: int, filled: Flags) -> bool:
    source = row[1].get(column, row[0])
    return source >= 0 and bool(filled[source])


def follow(numbers: CompactChanges, chained: Flags, known: Known, values: Filled) -> Effects:
    """Return the effects on the chained keys: those of key changes, flagged in `chained` by key number."""
    last: dict[int, int] = {}
    chain_rows = ChainRows()
    for held, touched in walk(numbers, chained, known, values):
        chain_rows = held
        for key, event in touched.items():
            if event is None:
                last.pop(key, None)
            else:
                last[key] = event
    return effects_of([(key, event, chain_rows.by_key.get(key)) for key, event in last.items()])


def walk(
    numbers: CompactChanges, chained: Flags, known: Known, values: Filled
) -> Iterator[tuple[ChainRows, dict[int, int | None]]]:
    """Yield, after each transaction, the rows by key and the last event of each key that it touched.

    The same `ChainRows` object is yielded every time. The event is None for a key whose row comes from the current
    table and was not changed since.
    """
    is_chosen = np.where(numbers.key == NOWHERE, True, chained[numbers.key])
    is_chosen[numbers.cleared.event] = True
    events = np.flatnonzero(is_chosen)
    events = events[np.argsort(numbers.rank[events])]
    clearing = _clearing(numbers)
    leaves = _Leaves(numbers, events, known)
    chain_rows, touched, csn = ChainRows(), dict[int, int | None](), NOWHERE
    for event, op, key, old, event_csn in _once(numbers, events):
        if event_csn != csn:
            if touched:
                yield chain_rows, touched
            csn, touched = event_csn, {}
            chain_rows.waiting.clear()
        if op == ROW:
            chain_rows.put(key, (event, COMPLETE))
            chain_rows.regain((event, COMPLETE), values)
            touched[key] = None
            continue
        if op == TRUNCATE:
            touched.update(dict.fromkeys(chain_rows.by_key, event))
            chain_rows.clear()
            continue
        for column in clearing.get(event, ()):
            touched.update(dict.fromkeys(chain_rows.lose(column, values[column]), event))
        if op == NULL_COLUMN or not chained[key]:
            continue
        touched[key] = event
        if op == DELETE:
            chain_rows.take(key)
            continue
        if op == INSERT:
            row = leaves.filled(event, None)
            chain_rows.put(key, row)
        elif old == NOWHERE:
            row = leaves.filled(event, chain_rows.see(key))
            chain_rows.change(key, row)
        else:
            touched[old] = event
            row = leaves.filled(event, chain_rows.take(old))
            chain_rows.arrive(key, row)
        chain_rows.regain(row, values)
    if touched:
        yield chain_rows, touched


def _clearing(numbers: CompactChanges) -> dict[int, list[int]]:
    """Return by event the columns that it nulls."""
    columns_by_event: dict[int, list[int]] = {}
    for event, column in zip(numbers.cleared.event.tolist(), numbers.cleared.column.tolist(), strict=True):
        columns_by_event.setdefault(event, []).append(column)
    return columns_by_event


def _once(numbers: CompactChanges, events: Ints) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield (event, operation, key, old key, csn) of ordered events; of duplicates only the first."""
    columns = (numbers.op, numbers.key, numbers.old, numbers.csn, numbers.pos)
    stamp, seen = (NOWHERE, NOWHERE), set[tuple[int, int, int]]()
    listed = (column[events].tolist() for column in columns)
    for event, op, key, old, csn, pos in zip(events.tolist(), *listed, strict=True):
        if (csn, pos) != stamp:
            stamp = (csn, pos)
            seen.clear()
        if (op, key, old) not in seen:
            seen.add((op, key, old))
            yield event, op, key, old, csn


class _Leaves:
    """Fills the columns that an event leaves unchanged."""

    def __init__(self, numbers: CompactChanges, events: Ints, known: Known) -> None:
        chosen = np.zeros(len(numbers.key), np.bool_)
        chosen[events] = True
        sparse = numbers.unchanged.only(chosen)
        who, start = np.unique(sparse.event, return_index=True)
        end = np.searchsorted(sparse.event, who, "right")
        self._spans = dict(zip(who.tolist(), zip(start.tolist(), end.tolist(), strict=True), strict=True))
        self._columns = sparse.column.tolist()
        changes = len(numbers.key) - numbers.rows
        self._before = np.where(known(sparse.event, sparse.column), sparse.event + changes, NOWHERE).tolist()

    def filled(self, event: int, row: Row | None) -> Row:
        """Return the row as the event leaves it.

        Columns that the event leaves unchanged come from `row`, the row before the event; without one they come from
        the event's image before.
        """
        if event not in self._spans:
            return event, COMPLETE
        start, end = self._spans[event]
        columns = self._columns[start:end]
        if row is not None:
            source, others = row
            return event, {column: others.get(column, source) for column in columns}
        return event, dict(zip(columns, self._before[start:end], strict=True))


def effects_of(changes: Sequence[tuple[int, int, Row | None]]) -> Effects:
    """Return the effects of changes, each (key, its last event, its row; None if the row is gone)."""
    rows = [row or (NOWHERE, COMPLETE) for _, _, row in changes]
    others = [(column, position, source) for position, (_, row) in enumerate(rows) for column, source in row.items()]
    column, position, instead = np.array(others, np.int64).reshape(-1, 3).T
    keys, last = (np.array([change[number] for change in changes], np.int64) for number in (0, 1))
    sources = np.array([source for source, _ in rows], np.int64)
    return Effects(keys, last, sources, column, position, instead)
