"""The scope of a backfill: its tables, its transactions, and how far the live tables are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Aggregate, Pipeline
from txloom.errors import ConfigurationError
from txloom.steps.backfill.compared_values import Listed
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.declarations.redeclared import Redeclared
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import instant_literal
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.targets import history_reader, schemas, shadow_tables
from txloom.storage.targets.row_tables import RowTable, row_tables

HIGHEST = shadow_tables.TO_THE_END
REBUILT, GONE, SHORT, UNREADABLE = "rebuilt", "gone", "short", "unreadable"
"""What becomes of a transaction of a backfill (`released_events.OUTCOMES`)."""


@dataclass(frozen=True)
class Target:
    """One table that is rebuilt.

    Args:
        name: its name.
        key: the columns that identify a row.
        schema: its declared schema.
        is_history: whether it is a history; else it is a current table.
        above: the csn up to which a history was cleaned, so that it lacks changes there; 0: never.
        members: of a history, the source tables whose changes it holds.
        listed: since when inserts list columns as absent, as `compared_values.compared_values` takes it.
    """

    name: str
    key: tuple[str, ...]
    schema: pa.Schema
    is_history: bool
    above: int = 0
    members: tuple[str, ...] = ()
    listed: Mapping[str, Listed] = field(default_factory=dict)


@dataclass(frozen=True)
class Scope:
    """A backfill.

    Args:
        pipeline: the declaration, with the targets of the chosen tables only.
        paths: the tables of the pipeline.
        run_id: the run.
        first: the lowest csn of its transactions.
        last: the highest csn.
        release: the highest release.
        redeclared: what messages mean that were landed by an earlier declaration; None: there are none.
        chosen: a SQL condition on transactions, which holds for those that are made again.
        restores: whether rows that maintenance removed from histories are made again, because their columns or their
            key are other ones now.
    """

    pipeline: Pipeline
    paths: TablePaths
    run_id: str
    first: int
    last: int
    release: int
    redeclared: Redeclared | None = None
    chosen: str = "true"
    restores: bool = False

    @property
    def tables(self) -> list[str]:
        """Return the chosen source tables."""
        return [row_table.table.name for row_table in row_tables(self.pipeline)]

    @property
    def histories(self) -> list[Target]:
        """Return the histories that have changes of the chosen tables."""
        targets = []
        for mirror in self.pipeline.targets.mirrors:
            schema = schemas.changes_schema(self.pipeline.table(mirror.table))
            cleaned = 0 if self.restores else self._cleaned(mirror.history)
            of_mirror = (mirror.table,)
            targets.append(Target(mirror.history, names.POSITION, schema, True, cleaned, of_mirror))
        for aggregate in self.pipeline.targets.aggregates:
            key = ("_txloom_csn", "_txloom_xid", *self.pipeline.table(aggregate.root).key)
            schema = schemas.stream_schema(self.pipeline, aggregate)
            members = tuple(name for name, _ in schemas.members_of(aggregate))
            targets.append(Target(aggregate.history, key, schema, is_history=True, members=members))
        return targets

    def _cleaned(self, history: str) -> int:
        return max(small_tables.last_written(self.paths.table(history), history_reader.CLEANED), 0)

    @property
    def currents(self) -> list[Target]:
        """Return the current tables of the chosen tables, documents first, as a merge writes them."""
        targets = [self.documents(aggregate) for aggregate in self.pipeline.targets.aggregates]
        return targets + [self.rows(row_table) for row_table in row_tables(self.pipeline)]

    def documents(self, aggregate: Aggregate) -> Target:
        """Return the current table of an aggregate."""
        schema = schemas.document_schema(self.pipeline, aggregate)
        return Target(aggregate.current, self.pipeline.table(aggregate.root).key, schema, is_history=False)

    def rows(self, row_table: RowTable) -> Target:
        """Return the row table of a source table."""
        return Target(row_table.current, row_table.key, row_table.schema, is_history=False)

    def range_of(self, history: Target) -> str:
        """Return the SQL condition for the rows of a history that the backfill rebuilds."""
        first = max(self.first, history.above + 1 if history.above else 0)
        return f"_txloom_csn between {first} and {self.last} and _txloom_release <= {self.release}"

    def watermark(self, target: Target) -> Watermark:
        """Return the watermark of a live current table."""
        return watermark_of(self.paths.table(target.name))

    @property
    def newest_watermark(self) -> Watermark:
        """Return the newest watermark of the live current tables; a table without changes since keeps an older one."""
        return max(self.watermark(target) for target in self.currents)

    def state(self) -> dict[str, Any]:
        """Return how far the live tables are; only releases, merges and cleaned history change it."""
        newest = partial(shadow_tables.newest_release, self.paths)
        state: dict[str, Any] = {each.name: [newest(each.name), each.above] for each in self.histories}
        return state | {each.name: list(vars(self.watermark(each)).values()) for each in self.currents}

    def note(self, status: str, **more: Any) -> None:
        """Append a row about the backfill to `backfills`, or with `table` about one table in it."""
        about = {"run_id": self.run_id, "from_csn": self.first, "to_csn": self.last, "status": status}
        shadow_tables.note(self.paths, about | more)


def scope_of(
    pipeline: Pipeline,
    paths: TablePaths,
    run_id: str,
    tables: Sequence[str],
    bounds: tuple[int | None, int | None],
    redeclared: Redeclared | None = None,
) -> Scope:
    """Return the scope of a new backfill.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        run_id: the run.
        tables: source tables; empty: all.
        bounds: the first and last csn; None: no bound.
        redeclared: what messages mean that were landed by an earlier declaration; None: there are none.

    Raises:
        ConfigurationError: if nothing was released yet, for bounds in the wrong order, and for a table that the
            pipeline does not keep.
    """
    seen = buffer_state(paths)
    if seen is None:
        raise ConfigurationError(f"pipeline {pipeline.name} has not released anything yet: there is nothing to rebuild")
    first, last = bounds[0] or 0, HIGHEST if bounds[1] is None else bounds[1]
    if first > last:
        raise ConfigurationError(f"from csn {first} to csn {last}: expected the lower one first")
    return Scope(only(pipeline, tables), paths, run_id, first, last, seen.release, redeclared)


def resumed(pipeline: Pipeline, paths: TablePaths, run_id: str, *statuses: str) -> tuple[Scope, dict[str, Any]]:
    """Return the scope of a run's backfill, and its newest row of `backfills`.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        run_id: the run.
        *statuses: one of these the backfill has to have.

    Raises:
        ConfigurationError: if the shadow tables are those of another run, or the backfill has another status.
    """
    newest = shadow_tables.newest_run(paths)
    if newest is None or newest["run_id"] != run_id:
        is_edit = newest is not None and newest["detail"] == shadow_tables.EDITED
        kind = "the rebuild after an edit in run" if is_edit else "the backfill"
        other = "no backfill" if newest is None else f"{kind} {newest['run_id']}"
        raise ConfigurationError(f"backfill {run_id}: the shadow tables are of {other}; rebuild first")
    if newest["status"] not in statuses:
        raise ConfigurationError(
            f"backfill {run_id} is {newest['status']}; expected {' or '.join(statuses)}: begin with rebuild"
        )
    state = json.loads(newest["state"])
    chosen = only(pipeline, state["tables"])
    return Scope(chosen, paths, run_id, newest["from_csn"], newest["to_csn"], state["release"]), newest


def only(pipeline: Pipeline, tables: Sequence[str]) -> Pipeline:
    """Return a pipeline with the targets of some source tables; of a document all tables are taken.

    Args:
        pipeline: the declaration.
        tables: source tables; empty: all.

    Raises:
        ConfigurationError: for a table that the pipeline does not keep.
    """
    declared = {row_table.table.name for row_table in row_tables(pipeline)}
    unknown = sorted(set(tables) - declared)
    if unknown:
        raise ConfigurationError(
            f"pipeline {pipeline.name} keeps no table {unknown[0]!r}; it has {', '.join(sorted(declared))}"
        )
    chosen, declared_ones = set(tables) or declared, pipeline.targets.aggregates
    groups = [{each.root, *(child.table for child in each.children)} for each in declared_ones]
    while any(group & chosen and not group <= chosen for group in groups):
        chosen |= {name for group in groups if group & chosen for name in group}
    aggregates = tuple(each for each, group in zip(declared_ones, groups, strict=True) if group <= chosen)
    mirrors = tuple(mirror for mirror in pipeline.targets.mirrors if mirror.table in chosen)
    targets = pipeline.targets.model_copy(update={"aggregates": aggregates, "mirrors": mirrors})
    return pipeline.model_copy(update={"targets": targets})


def csns_of(paths: TablePaths, since: datetime | None, until: datetime | None) -> tuple[int | None, int | None]:
    """Return the first and last csn of the released transactions that were committed in a period.

    Args:
        paths: the tables of the pipeline.
        since: the beginning; None: no bound, and None is returned for the first csn.
        until: the end, inclusive; None likewise.

    Raises:
        ConfigurationError: if there is none.
    """
    conditions = ["status = 'released'"]
    for sign, moment in ((">=", since), ("<=", until)):
        if moment is not None:
            conditions.append(f"committed_at {sign} {instant_literal(moment)}")
    sql = f"select min(csn) as first, max(csn) as last from t where {' and '.join(conditions)}"
    rows = small_tables.query(paths.table(names.TRANSACTIONS), sql)
    if not rows or rows[0]["first"] is None:
        raise ConfigurationError(f"no released transaction was committed between {since} and {until}")
    return (None if since is None else rows[0]["first"]), (None if until is None else rows[0]["last"])
