"""backfill, rebuild: histories of a range from change_events, and current tables from history, into shadow tables.

A current table is rebuilt from the history as a backfill would leave it: the live rows, with the rebuilt ones instead
of those with the same key. Up to LOCAL_ROWS rows this happens in this process, above in Spark's tasks.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.config.models.pipeline import Aggregate
from txloom.current.documents.compose import documents
from txloom.current.folding.fold import fold
from txloom.current.row_hashes import row_hashes
from txloom.steps.backfill.released_events import OUTCOMES, REBUILT, landings, rebuild, transactions
from txloom.steps.backfill.scope import Scope, Target
from txloom.steps.backfill.shadow_rows import is_small, shadow, without_cleaned, write_shadow
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.targets import history_reader, shadow_tables
from txloom.storage.targets.row_tables import RowTable, member_of, row_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRANSACTIONS = names.TRANSACTIONS
"""Its shadow table has the outcome of each transaction."""


def rebuild_shadows(spark: "Callable[[], SparkSession]", scope: Scope) -> dict[str, int]:
    """Replace the shadow tables of a backfill; return counts: transactions, events, and transactions by outcome.

    Args:
        spark: opens a Spark session, for large tables.
        scope: the backfill.
    """
    chosen = transactions(scope)
    rows = pc.sum(chosen.column("rows")).as_py() or 0
    if rows <= arrow_tables.LOCAL_ROWS and is_small(scope):
        _histories(scope, chosen)
        _currents(scope)
    else:
        from txloom.steps.backfill import spark as backfill_spark

        backfill_spark.histories(spark(), scope, chosen, rows)
        backfill_spark.currents(spark(), scope)
    sql = "select fate, count(*) as n from t group by fate"
    outcomes = {
        row["fate"]: row["n"] for row in small_tables.query(scope.paths.table(names.shadow_table(TRANSACTIONS)), sql)
    }
    return {"transactions": chosen.num_rows, "events": rows, REBUILT: 0} | outcomes


def _histories(scope: Scope, chosen: pa.Table) -> None:
    between = landings(scope, chosen) if chosen.num_rows else (0, 0)
    rebuilt = rebuild(scope, chosen, between)
    for target in scope.histories:
        rows = rebuilt.history.get(target.name)
        write_shadow(scope, target, target.schema.empty_table() if rows is None else without_cleaned(target, rows))
    shadow_tables.write(
        scope.paths.table(names.shadow_table(TRANSACTIONS)), arrow_tables.conform(rebuilt.outcomes, OUTCOMES)
    )


def _currents(scope: Scope) -> None:
    """Write the shadows of current tables: fold each history, then compose documents of the folded rows."""
    held: dict[str, pa.Table] = {}
    targets = {target.name: target for target in scope.histories}
    for row_table in row_tables(scope.pipeline):
        rows = _history(scope, targets[row_table.history], scope.newest_watermark, held)
        write_shadow(scope, scope.rows(row_table), _folded(row_table, scope.rows(row_table), rows))
    for aggregate in scope.pipeline.targets.aggregates:
        write_shadow(scope, scope.documents(aggregate), _composed(scope, aggregate))


def _history(scope: Scope, target: Target, watermark: Watermark, held: dict[str, pa.Table]) -> pa.Table:
    """Return a history up to a watermark, as the backfill would leave it.

    held: histories that were read before, by name; this one is added.
    """
    if target.name not in held:
        live = shadow_tables.live(scope.paths.table(target.name), target.schema, "true")
        shadow_rows = shadow(scope, target)
        replaced = pc.is_in(row_hashes(live, target.key), row_hashes(shadow_rows, target.key))
        held[target.name] = pa.concat_tables([live.filter(pc.invert(replaced)), shadow_rows])
    rows = held[target.name]
    shown = pc.and_(
        pc.less_equal(rows.column("_txloom_csn"), pa.scalar(watermark.valid_through)),
        pc.less_equal(rows.column("_txloom_release"), pa.scalar(watermark.release)),
    )
    return rows.filter(shown)


def _folded(row_table: RowTable, target: Target, rows: pa.Table) -> pa.Table:
    changes = history_reader.changes_of(rows, row_table)
    folded = fold(target.schema.empty_table(), changes, key=row_table.key, columns=row_table.table.column_names)
    return row_table.filled(folded.filter(pc.invert(folded.column("_txloom_deleted"))))


def _composed(scope: Scope, aggregate: Aggregate) -> pa.Table:
    pipeline = scope.pipeline
    rows = {row_table.table.name: shadow(scope, scope.rows(row_table)) for row_table in _members(scope, aggregate)}
    root = pipeline.table(aggregate.root)
    children = [(member_of(pipeline.table(child.table), child), rows[child.table]) for child in aggregate.children]
    composed = documents(rows[root.name], children, root.key, root.column_names)
    return arrow_tables.conform(composed, scope.documents(aggregate).schema)


def _members(scope: Scope, aggregate: Aggregate) -> Iterator[RowTable]:
    names_ = {aggregate.root, *(child.table for child in aggregate.children)}
    return (row_table for row_table in row_tables(scope.pipeline) if row_table.table.name in names_)
