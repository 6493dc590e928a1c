"""backfill: rebuild tables of a range from change_events in shadow tables, compare, and repair what differs.

A run has four tasks: rebuild, compare, apply, drop. Only apply writes to live tables. The buffer's checkpoint is not
used, and no row of history is removed.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ComparisonOutdated, ConfigurationError
from txloom.steps.backfill.apply import apply_differences
from txloom.steps.backfill.compare import CHANGES, compare_shadows
from txloom.steps.backfill.rebuild import rebuild_shadows
from txloom.steps.backfill.scope import HIGHEST, Scope, csns_of, only, resumed, scope_of
from txloom.steps.step import Counts, Step
from txloom.storage.declarations import marks, records
from txloom.storage.declarations.redeclared import redeclared_of
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import schema_evolution
from txloom.storage.edits.pending_edits import find_waiting_keys, refuse_pending, refuse_renamed_keys
from txloom.storage.paths import TablePaths
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.targets import history_tables, shadow_tables
from txloom.storage.targets.row_tables import history_members, row_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)

Differences = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Range:
    """What a backfill is to rebuild.

    Args:
        csns: the first and last csn of its transactions; None: no bound.
        times: the first and last commit time instead.
        tables: only these source tables; empty: all, except those with a renamed key whose histories wait for messages.
    """

    csns: tuple[int | None, int | None] = (None, None)
    times: tuple[datetime | None, datetime | None] = (None, None)
    tables: Sequence[str] = ()


def backfill(step: Step, task: str, within: Range = Range()) -> Counts:
    """Run one task of a backfill. A repeated task has the same result.

    Args:
        step: the pipeline, its tables and the run.
        task: one of BACKFILL_TASKS.
        within: what rebuild takes; the other tasks go on with what the run rebuilt.

    Returns:
        rebuild: transactions and events, and transactions by outcome. compare: rows by kind of difference, and changes,
        the rows that an apply would change. apply: changes and commits. drop: dropped, the removed tables.

    Raises:
        ConfigurationError: for an unknown task, range or table, for a task that is not the next one of this run, and
            for a current table that no cycle has brought to its declaration yet.
        BeforeHistory: if the next cycle has yet to bring a history to the declaration.
        ComparisonOutdated: if live tables changed since the comparison, and apply would change other rows.
    """
    if task not in names.BACKFILL_TASKS:
        raise ConfigurationError(f"no task is called {task!r}; there are: {', '.join(names.BACKFILL_TASKS)}")
    paths, run_id = step.paths, step.run_id
    declared = effective_pipeline(step.pipeline, paths)
    opened = cache(step.session)
    if task == "rebuild":
        if any(within.times) and within.csns != (None, None):
            raise ConfigurationError("a range is one of csns or one of commit times: leave one of them empty")
        bounds = csns_of(paths, *within.times) if any(within.times) else within.csns
        tables = _choose_tables(declared, paths, within.tables)
        counts = _rebuild(opened, scope_of(declared, paths, run_id, tables, bounds, redeclared_of(declared, paths)))
    elif task == "compare":
        counts = _compare(opened, *resumed(declared, paths, run_id, "rebuilt", "comparing", "compared"))
    elif task == "apply":
        counts = _apply(opened, *resumed(declared, paths, run_id, "compared", "applied"))
    else:
        counts = _drop(declared, paths, run_id)
    entry = Entry(run_id, f"backfill.{task}", datetime.now(UTC), counts)
    write_ledger(paths.warehouse, paths.pipeline, entry)
    return {**counts}


def _choose_tables(pipeline: Pipeline, paths: TablePaths, tables: Sequence[str]) -> Sequence[str]:
    """Return the source tables of a backfill: those that are given, or all whose current tables can be compared.

    Raises:
        ConfigurationError: the current table of a given table, or of every table, does not have its renamed key yet.
    """
    if not (waiting := find_waiting_keys(pipeline, paths)):
        return tables
    left_out = {row_table.table.name for row_table in row_tables(only(pipeline, waiting))}
    chosen = [each.table.name for each in row_tables(pipeline) if each.table.name not in left_out]
    if left_out & {*tables} or not chosen:
        raise ConfigurationError(
            f"current rows of {', '.join(waiting)} lack the new names of the key until the messages that the history "
            "waits for have arrived, or completeness.patience has passed: choose other tables, or try again then"
        )
    if not tables:
        LOG.info("left out: %s; the renamed key of %s waits for messages", sorted(left_out), ", ".join(waiting))
    return tables or chosen


def _rebuild(spark: "Callable[[], SparkSession]", scope: Scope) -> dict[str, int]:
    refuse_renamed_keys(scope.pipeline, scope.paths, records.declared_pairs(scope.pipeline))
    for target in [*scope.histories, *scope.currents]:
        if lagging := schema_evolution.lagging(scope.paths.table(target.name), target.schema):
            raise ConfigurationError(
                f"{target.name} has not taken up its declaration yet ({lagging[0]}): run a cycle, which brings "
                "tables to it, then try again"
            )
    _refuse_pending(scope.pipeline, scope.paths)
    if (gone := history_tables.lost(scope.pipeline, scope.paths)) and (scope.first, scope.last) != (0, HIGHEST):
        raise ConfigurationError(
            f"the history {gone[0]} is gone: a part of it would be taken for all of it; rebuild it without a range"
        )
    scope.note("rebuilding", state=_state(scope))
    counts = rebuild_shadows(spark, scope)
    scope.note("rebuilt", state=_state(scope), counts=counts)
    return counts


def _refuse_pending(pipeline: Pipeline, paths: TablePaths) -> None:
    """Refuse to rebuild histories and current tables that the next cycle has yet to bring to the declaration.

    Otherwise every row would differ, and an apply would write rows under names that later rows do not have.
    """
    states, members = records.states(records.read(paths)), history_members(pipeline)
    refuse_pending(pipeline, paths, states, members)
    for each in members:
        state = records.find_state(states, each.history, each.table)
        if state is not None and state.newest.status in (records.DECLARED, records.LEFT_OUT):
            raise ConfigurationError(
                f"{each.history} does not have all rows of {each.table.name} as they are declared yet: run a cycle, "
                "which makes them, then try again"
            )
    bases = {pair: state.basis for pair, state in states.items()}
    expected = {each.current: marks.row_mark(each, bases) for each in row_tables(pipeline)}
    expected |= {each.current: marks.document_mark(pipeline, each, bases) for each in pipeline.targets.aggregates}
    for name, mark in expected.items() if states else ():
        if marks.read_mark(paths.table(name)).mark not in (None, mark):
            raise ConfigurationError(
                f"{name} has not taken up its declaration yet: run a cycle, which brings tables to it, then try again"
            )


def _state(scope: Scope) -> str:
    return json.dumps({"tables": scope.tables, "release": scope.release, "live": scope.state()})


def _moved(scope: Scope, newest: Mapping[str, Any]) -> bool:
    """Say whether live tables changed since a note was written.

    Maintenance, and cycles that bring these tables nothing, change nothing.
    """
    return bool(json.loads(newest["state"])["live"] != scope.state())


def _compare(spark: "Callable[[], SparkSession]", scope: Scope, newest: Mapping[str, Any]) -> dict[str, int]:
    if _moved(scope, newest):
        scope = _as_of_now(scope)
        _rebuild(spark, scope)
    # Differences are not those that an earlier comparison counted any more: what dies here is compared again.
    scope.note("comparing", state=_state(scope))
    differences = compare_shadows(spark, scope)
    _note_compared(scope, differences)
    return _summed(differences)


def _note_compared(scope: Scope, differences: Differences) -> None:
    for table, difference in differences.items():
        samples = json.dumps(difference["samples"], ensure_ascii=False)
        scope.note("compared", table=table, counts=difference["counts"], digest=difference["digest"], samples=samples)
    scope.note("compared", counts=_summed(differences), state=_state(scope))


def _as_of_now(scope: Scope) -> Scope:
    """Return the same backfill over everything that was released until now."""
    redeclared = redeclared_of(scope.pipeline, scope.paths)
    return scope_of(scope.pipeline, scope.paths, scope.run_id, (), (scope.first, scope.last), redeclared)


def _summed(differences: Differences) -> dict[str, int]:
    """Return the sums of all tables' counts; changes: the rows that an apply would change."""
    sums = dict.fromkeys((*CHANGES, "surplus"), 0)
    for difference in differences.values():
        for name, count in difference["counts"].items():
            sums[name] += count
    return {"changes": sum(sums[name] for name in CHANGES), **sums}


def _apply(spark: "Callable[[], SparkSession]", scope: Scope, newest: Mapping[str, Any]) -> dict[str, int]:
    """Apply what was compared; where live tables changed since, only if the same rows still differ."""
    if newest["status"] == "applied":
        return {"changes": 0, "commits": 0}
    differences: Differences = {
        row["table"]: {"counts": dict(row["counts"]), "digest": row["digest"]} for row in _compared(scope)
    }
    changes = _summed(differences)["changes"]
    if changes and _moved(scope, newest):
        scope = _compared_again(spark, scope, newest, differences)
    commits = (
        apply_differences(spark, scope, {name: difference["counts"] for name, difference in differences.items()})
        if changes
        else 0
    )
    scope.note("applied", counts=_summed(differences), state=newest["state"])
    return {"changes": changes, "commits": commits}


def _compared(scope: Scope) -> list[dict[str, Any]]:
    tables = {target.name for target in [*scope.histories, *scope.currents]}
    return [row for row in shadow_tables.compared(scope.paths, scope.run_id) if row["table"] in tables]


def _compared_again(
    spark: "Callable[[], SparkSession]", scope: Scope, newest: Mapping[str, Any], approved: Differences
) -> Scope:
    """Rebuild and compare once more with the live tables as they are; raise ComparisonOutdated if other rows differ.

    Nothing is noted before that is decided: if the run dies, the next one decides it again.
    """
    now = _as_of_now(scope)
    rebuild_shadows(spark, now)
    differences = compare_shadows(spark, now)
    other = sorted(name for name, difference in approved.items() if difference["digest"] != differences[name]["digest"])
    if other:
        scope.note("outdated", state=newest["state"], detail=f"what differs in {', '.join(other)} is another now")
        raise ComparisonOutdated(
            f"backfill {scope.run_id}: since it was compared, live tables moved on, and what differs in "
            f"{', '.join(other)} is not what was compared: nothing was applied; rebuild and compare again"
        )
    _note_compared(now, differences)
    return now


def _drop(pipeline: Pipeline, paths: TablePaths, run_id: str) -> dict[str, int]:
    """Remove the shadow tables, unless they are those of a later run."""
    newest = shadow_tables.newest_run(paths)
    if newest is None or newest["run_id"] != run_id:
        return {"dropped": 0}
    scope = scope_of(pipeline, paths, run_id, (), (newest["from_csn"], newest["to_csn"]))
    tables = [names.TRANSACTIONS, *(target.name for target in [*scope.histories, *scope.currents])]
    dropped = shadow_tables.drop(paths, tables)
    if newest["status"] != "dropped":
        scope.note("dropped", state=newest["state"], detail=f"was {newest['status']}")
    return {"dropped": dropped}
