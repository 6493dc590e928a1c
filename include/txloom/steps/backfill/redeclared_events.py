"""Make history rows again where messages were landed by another declaration than the present one.

The messages of released transactions are decoded again: rows of a table that was not watched are taken, under the
present name, key and columns. A transaction is judged for each table by itself, because its release counted only what
was watched then: a table's rows are all there if metadata counts as many, or, where no metadata counts, if the message
of none of them was removed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.config.models.pipeline import Pipeline
from txloom.events import formats
from txloom.steps.backfill.released_events import (
    KEYS,
    OUTCOMES,
    Rebuilt,
    first_of_each,
    known_by_id,
    landed_columns,
    of_tables,
    outcomes_of,
)
from txloom.steps.backfill.scope import GONE, REBUILT, SHORT, UNREADABLE, Scope
from txloom.steps.buffer.release import Release, made_of
from txloom.storage.buffer.buffer_stream import RELEASED_ROWS
from txloom.storage.declarations.redeclared import as_declared
from txloom.storage.delta import arrow_tables
from txloom.storage.targets import schemas
from txloom.transactions import metadata
from txloom.transactions.events import NOWHERE

Matrix = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
UNKNOWN = -1
"""The number of rows that a transaction has of a table where no metadata counts them."""


def rebuild_redeclared(scope: Scope, chosen: pa.Table, bounds: tuple[int, int]) -> Rebuilt:
    """Make the history rows of transactions again by the present declaration; nothing is written.

    Args:
        scope: the backfill, with what was redeclared.
        chosen: the transactions, as `released_events.transactions` returns them.
        bounds: the lowest and highest hash of the transactions.
    """
    if not chosen.num_rows:
        return Rebuilt({}, OUTCOMES.empty_table())
    once = known_by_id(chosen)
    if not pc.all(once).as_py():
        rebuilt = rebuild_redeclared(scope, chosen.filter(once), bounds)
        left = chosen.filter(pc.invert(once))
        return Rebuilt(rebuilt.history, pa.concat_tables([rebuilt.outcomes, outcomes_of(left, GONE)]))
    assert scope.redeclared is not None
    events = as_declared(scope.pipeline, scope.redeclared, _landed(scope, chosen, bounds))
    judged = Judged(scope, _with_csns(chosen, events), events)
    made = [*_made(judged)]
    unreadable = {tx for each in made for tx in each.unreadable}
    history = {name: rows for each in made for name, rows in each.history.items()}
    return Rebuilt(history, judged.outcomes(unreadable))


def _with_csns(chosen: pa.Table, events: pa.Table) -> pa.Table:
    """Return transactions that had no watched row to tell their csn at the csn of the last row that is watched now."""
    csn = chosen.column("csn").to_numpy()
    if (csn != NOWHERE).all() or not events.num_rows:
        return chosen
    rows = events.filter(pc.equal(events.column("kind"), pa.scalar("row")))
    last = rows.group_by("tx").aggregate([("csn", "max")])
    places = pc.index_in(chosen.column("tx").combine_chunks(), last.column("tx").combine_chunks())
    of_rows = last.column("csn_max").combine_chunks().take(places)
    known = pc.if_else(pa.array(csn == NOWHERE), pc.coalesce(of_rows, pa.scalar(NOWHERE)), pa.array(csn))
    return chosen.set_column(chosen.column_names.index("csn"), "csn", known)


def _landed(scope: Scope, chosen: pa.Table, bounds: tuple[int, int]) -> pa.Table:
    """Return all events of transactions that are of a watched table, whenever they were landed."""
    assert scope.redeclared is not None
    sources = pa.array(sorted(scope.redeclared.sources), pa.string())
    where = f"tx between {bounds[0]} and {bounds[1]} and kind in ('metadata', 'row')"
    sql = f"select {landed_columns(scope)}, source_table from t where {where}"
    tx = chosen.column("tx").combine_chunks()
    events = arrow_tables.matching(scope.paths.change_events, sql, "tx", tx)
    is_watched = pc.or_(
        pc.equal(events.column("kind"), pa.scalar("metadata")),
        pc.or_(pc.is_valid(events.column("table")), pc.is_in(events.column("source_table"), sources)),
    )
    return events.filter(is_watched).combine_chunks()


@dataclass(frozen=True)
class Judged:
    """Landed events of transactions, and of which tables all rows of a transaction are there.

    Args:
        scope: the backfill.
        chosen: the transactions, ordered by tx.
        events: their events as they are declared now.
    """

    scope: Scope
    chosen: pa.Table
    events: pa.Table

    @cached_property
    def tables(self) -> Sequence[str]:
        """The chosen source tables."""
        return self.scope.tables

    @cached_property
    def at(self) -> npt.NDArray[np.int64]:
        """The transaction of each event."""
        return np.searchsorted(self.chosen.column("tx").to_numpy(), self.events.column("tx").to_numpy())

    @cached_property
    def table(self) -> npt.NDArray[np.int64]:
        """The number of each row's table; -1 for metadata and tables that are not chosen."""
        numbers = pc.index_in(self.events.column("table"), pa.array(self.tables, pa.string())).fill_null(-1)
        places: Matrix = numbers.to_numpy().astype(np.int64)
        return places

    @cached_property
    def first_ones(self) -> Flags:
        """Which row events are the first of their identity and content; none whose message was removed."""
        among = self.is_row & pc.is_valid(self.events.column("value")).to_numpy(zero_copy_only=False) & self._counts
        return first_of_each(self.events, among, KEYS)

    @cached_property
    def is_row(self) -> Flags:
        """Which events are rows of the chosen tables."""
        is_row = pc.equal(self.events.column("kind"), pa.scalar("row")).to_numpy(zero_copy_only=False)
        flags: Flags = is_row & (self.table >= 0)
        return flags

    @cached_property
    def _counts(self) -> Flags:
        """Which events may belong to a release: those that were landed in time, or whose table was not watched then."""
        assert self.scope.redeclared is not None
        landed = self.events.column("landed_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
        first, finished = (self.chosen.column(name).to_numpy()[self.at] for name in ("first_at", "finished_at"))
        decided = self.chosen.column("landing").fill_null(pa.scalar(-1)).to_numpy()[self.at]
        since = np.array([*(self.scope.redeclared.since.get(name, 0) for name in self.tables), 0])
        flags: Flags = ((first <= landed) & (landed <= finished)) | (since[self.table] > decided)
        return flags

    @cached_property
    def received(self) -> Matrix:
        """How many rows of each transaction and table there are."""
        return self._matrix(self.first_ones)

    @cached_property
    def removed(self) -> Matrix:
        """How many rows have no message any more, or cannot be read as declared now."""
        no_message = pc.is_null(self.events.column("value")).to_numpy(zero_copy_only=False)
        poison = pc.equal(self.events.column("kind"), pa.scalar("poison")).to_numpy(zero_copy_only=False)
        return self._matrix((self.table >= 0) & (no_message | poison) & self._counts)

    @cached_property
    def expected(self) -> Matrix:
        """How many rows metadata counts; UNKNOWN without metadata that counts by the present declaration."""
        expected = np.full((self.chosen.num_rows, len(self.tables)), UNKNOWN, np.int64)
        if formats.is_ordered(self.scope.pipeline):
            return expected
        is_metadata = pc.equal(self.events.column("kind"), pa.scalar("metadata")).to_numpy(zero_copy_only=False)
        of_transaction: dict[int, list[dict[str, Any]]] = {}
        rows = self.events.filter(pa.array(is_metadata)).select(["landing", "row", "counts"]).to_pylist()
        for number, row in zip(self.at[is_metadata].tolist(), rows, strict=True):
            of_transaction.setdefault(number, []).append({**row, "expected": row["counts"]})
        for number, messages in of_transaction.items():
            newest = metadata.newest(messages)
            counts = dict(newest["expected"] or ()) if newest is not None else {}
            expected[number] = [counts.get(name, 0) for name in self.tables]
        return expected

    @cached_property
    def is_there(self) -> Flags:
        """Of which transactions and tables every row is there."""
        counted = self.expected != UNKNOWN
        flags: Flags = np.where(counted, self.received == self.expected, self.removed == 0)
        return flags

    @cached_property
    def may_come(self) -> Flags:
        """Of which transactions and tables rows have not arrived yet, and none was removed."""
        flags: Flags = (self.expected > self.received) & (self.removed == 0)
        return flags

    def _matrix(self, flags: Flags) -> Matrix:
        width = len(self.tables)
        cells = self.at[flags] * width + self.table[flags]
        return np.bincount(cells, minlength=self.chosen.num_rows * width).reshape(-1, width)

    def rows_of(self, members: Sequence[str]) -> pa.Table:
        """Return the rows of tables, of the transactions that have every row of all of them, at their csn."""
        numbers = [self.tables.index(name) for name in members]
        whole: Flags = np.asarray(self.is_there[:, numbers].all(axis=1))
        flags = self.first_ones & np.isin(self.table, numbers) & whole[self.at]
        rows = self.events.filter(pa.array(flags)).drop_columns(["counts", "source_table"])
        return of_tables(rows, self.chosen.filter(pa.array(whole)), members)

    def outcomes(self, unreadable: set[int]) -> pa.Table:
        """Return the outcomes of the transactions; unreadable: hashes of those with a value that does not fit."""
        present = (self.received > 0) | (self.removed > 0) | (self.expected > 0)
        refused = np.isin(self.chosen.column("tx").to_numpy(), np.array(sorted(unreadable), np.int64))[:, None]
        left = {
            UNREADABLE: present & refused,
            SHORT: present & ~refused & ~self.is_there & self.may_come,
            GONE: present & ~refused & ~self.is_there & ~self.may_come,
        }
        is_left: Flags = np.any([flags.any(axis=1) for flags in left.values()], axis=0)
        parts = [outcomes_of(self.chosen.filter(pa.array(~is_left)), REBUILT)]
        for fate, flags in left.items():
            some: Flags = np.asarray(flags.any(axis=1))
            tables = [[self.tables[int(number)] for number in np.flatnonzero(row)] for row in flags[some]]
            parts.append(outcomes_of(self.chosen.filter(pa.array(some)), fate, tables))
        return pa.concat_tables(parts)


def _made(judged: Judged) -> "list[Release]":
    """Return the history rows of mirrors, and of each aggregate, whose transactions need the rows of all members."""
    pipeline, chosen = judged.scope.pipeline, judged.chosen.select(RELEASED_ROWS.names)
    made = []
    for mirror in pipeline.targets.mirrors:
        only = _with_targets(pipeline, mirrors=(mirror,), aggregates=())
        made.append(made_of(only, judged.rows_of([mirror.table]), chosen, 0))
    for aggregate in pipeline.targets.aggregates:
        members = [name for name, _ in schemas.members_of(aggregate)]
        only = _with_targets(pipeline, mirrors=(), aggregates=(aggregate,))
        made.append(made_of(only, judged.rows_of(members), chosen, 0))
    return made


def _with_targets(pipeline: Pipeline, **targets: Any) -> Pipeline:
    return pipeline.model_copy(update={"targets": pipeline.targets.model_copy(update=targets)})
