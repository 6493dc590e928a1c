"""Judge released transactions whose messages were landed by another declaration than the present one.

Their messages are decoded again: rows of a table that was not watched are taken, under the
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
from txloom.steps.backfill.released_events import Share, is_in_time, outcomes_of, read_landed
from txloom.steps.backfill.scope import GONE, REBUILT, SHORT, UNREADABLE, Scope
from txloom.storage.declarations.redeclared import as_declared
from txloom.storage.targets.row_tables import row_tables
from txloom.transactions import metadata
from txloom.transactions.events import NOWHERE
from txloom.transactions.redelivered import Flags, Positions, first_of_each, number_deliveries, released_positions

Matrix = npt.NDArray[np.int64]
UNKNOWN = -1
"""The number of rows that a transaction has of a table where no metadata counts them."""


def read_redeclared(scope: Scope, share: Share) -> pa.Table:
    """Return the events of watched tables as they are declared now, whenever they were landed.

    Args:
        scope: the backfill, with what was redeclared.
        share: the transactions; at least one.
    """
    assert scope.redeclared is not None
    sources = pa.array(sorted(scope.redeclared.sources), pa.string())

    def is_watched(events: pa.Table) -> pa.BooleanArray:
        kind, is_named = events.column("kind"), pc.is_in(events.column("source_table"), value_set=sources)
        is_row = pc.and_(pc.equal(kind, pa.scalar("row")), pc.or_(pc.is_valid(events.column("table")), is_named))
        return pc.or_(pc.equal(kind, pa.scalar("metadata")), is_row)

    return as_declared(scope.pipeline, scope.redeclared, read_landed(scope, share, is_watched))


def with_csns(chosen: pa.Table, events: pa.Table) -> pa.Table:
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


@dataclass(frozen=True)
class JudgedByTable:
    """Landed events of transactions, and of which tables all rows of a transaction are there.

    Args:
        scope: the backfill.
        chosen: the transactions, ordered by tx.
        events: their events as they are declared now, with the columns KEYS, kind, landing, row, pos, landed_at,
            has_message and counts.
    """

    scope: Scope
    chosen: pa.Table
    events: pa.Table

    @cached_property
    def pipelines(self) -> Sequence[Pipeline]:
        """The declaration with one target at a time: an aggregate needs the rows of all members, a mirror of one."""
        pipeline, targets = self.scope.pipeline, self.scope.pipeline.targets
        mirrors = [_with_targets(pipeline, mirrors=(mirror,), aggregates=()) for mirror in targets.mirrors]
        return mirrors + [_with_targets(pipeline, mirrors=(), aggregates=(each,)) for each in targets.aggregates]

    def candidates(self, pipeline: Pipeline) -> Flags:
        """Return which events the rows of a target are made of if their transaction is there."""
        flags: Flags = self.first_ones & np.isin(self.table, self._members(pipeline))
        return flags

    def taken(self, pipeline: Pipeline) -> Flags:
        """Return which events the rows of a target are made of: of transactions with every row of its tables."""
        is_whole: Flags = np.asarray(self.is_there[:, self._members(pipeline)].all(axis=1))
        return self.candidates(pipeline) & is_whole[self.at]

    def _members(self, pipeline: Pipeline) -> list[int]:
        """Return the numbers of the tables of a target."""
        return [self.tables.index(row_table.table.name) for row_table in row_tables(pipeline)]

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
        """Which events are the first delivery of their row that still has its message."""
        return first_of_each(self.events, self._is_kept & (self._counts | self._came_again))

    @cached_property
    def pos(self) -> Positions:
        """The position under which each event was released."""
        return released_positions(self.events, self._delivery, self._is_in_time)

    @cached_property
    def has_message(self) -> Flags:
        """Which events still have their message."""
        flags: Flags = self.events.column("has_message").to_numpy()
        return flags

    @cached_property
    def is_row(self) -> Flags:
        """Which events are rows of the chosen tables."""
        is_row = pc.equal(self.events.column("kind"), pa.scalar("row")).to_numpy(zero_copy_only=False)
        flags: Flags = is_row & (self.table >= 0)
        return flags

    @cached_property
    def _counts(self) -> Flags:
        """Which events may belong to a release: those that came in time, or before their table was watched."""
        assert self.scope.redeclared is not None
        decided = self.chosen.column("landing").fill_null(pa.scalar(-1)).to_numpy()[self.at]
        since = np.array([*(self.scope.redeclared.since.get(name, 0) for name in self.tables), 0])
        flags: Flags = is_in_time(self.events, self.chosen, self.at) | (since[self.table] > decided)
        return flags | self._is_redriven

    @cached_property
    def _is_redriven(self) -> Flags:
        """Which events are redriven rows that first came before their table was declared as it is now."""
        assert self.scope.redeclared is not None
        redriven, landings = self.scope.redeclared.redriven, self.events.column("landing").to_numpy()
        flags: Flags = np.isin(landings, [landing for landing, _ in redriven])
        places = zip(landings[flags].tolist(), self.events.column("row").to_numpy()[flags].tolist(), strict=True)
        flags[flags] = [place in redriven for place in places]
        return flags

    @cached_property
    def received(self) -> Matrix:
        """How many rows of each transaction and table there are."""
        return self._matrix(self.first_ones)

    @cached_property
    def removed(self) -> Matrix:
        """How many rows have no delivery with a message, or cannot be read as declared now."""
        poison = pc.equal(self.events.column("kind"), pa.scalar("poison")).to_numpy(zero_copy_only=False)
        return self._matrix(self._is_in_time & (~self.has_message | poison) & ~self._came_again)

    @cached_property
    def _is_kept(self) -> Flags:
        """Which events are rows of the chosen tables that still have their message."""
        return self.is_row & self.has_message

    @cached_property
    def _is_in_time(self) -> Flags:
        """Which events of the chosen tables may belong to a release."""
        flags: Flags = (self.table >= 0) & self._counts
        return flags

    @cached_property
    def _delivery(self) -> npt.NDArray[np.int64]:
        """The numbers of the deliveries of rows that may belong to a release."""
        return number_deliveries(self.events, self._is_kept, self._is_in_time & ~self.has_message)

    @cached_property
    def _came_again(self) -> Flags:
        """Which events are deliveries of a row of which one delivery lost its message, and another one still has it."""
        flags: Flags = self._delivery >= 0
        return flags

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


def _with_targets(pipeline: Pipeline, **targets: Any) -> Pipeline:
    return pipeline.model_copy(update={"targets": pipeline.targets.model_copy(update=targets)})
