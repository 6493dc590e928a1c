"""maintain_tables: the maintenance tasks, never beside a merge; `txloom.config.names` has their order."""

import logging
from datetime import UTC, datetime
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.steps.maintenance.clean_history import clean_history
from txloom.steps.maintenance.expire import expire
from txloom.steps.maintenance.register_tables import register_tables
from txloom.steps.step import Counts, Step
from txloom.storage import system_tables
from txloom.storage.buffer import batch_plan, checkpoints
from txloom.storage.delta import small_tables, spark_tables
from txloom.storage.delta.sql import text_literal
from txloom.storage.maintenance import log_retention, optimize
from txloom.storage.paths import TablePaths
from txloom.storage.publishing import reader_holds
from txloom.storage.runs.ledger import Entry, write_ledger
from txloom.storage.targets.row_tables import row_tables

LOG = logging.getLogger(__name__)


def maintain_tables(step: Step, task: str) -> Counts:
    """Run one maintenance task over every table of a pipeline; its counts are also appended to the ledger.

    Args:
        step: the pipeline, its tables and the run.
        task: one of MAINTENANCE_TASKS.

    Raises:
        ConfigurationError: for another task.
    """
    if task not in names.MAINTENANCE_TASKS:
        raise ConfigurationError(
            f"no maintenance task is called {task!r}; there are: {', '.join(names.MAINTENANCE_TASKS)}"
        )
    counts = WORK[task](step)
    entry = Entry(step.run_id, names.maintenance_step(task), datetime.now(UTC), counts)
    write_ledger(step.paths.warehouse, step.paths.pipeline, entry)
    return {**counts}


def tables_of(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """Return every table of a pipeline, with the columns by which its files are ordered (Z-order)."""
    clustering: dict[str, tuple[str, ...]] = dict.fromkeys(names.PIPELINE_TABLES, ())
    for row_table in row_tables(pipeline):
        clustering[row_table.current] = row_table.mirror.zorder if row_table.mirror else ()
    for mirror in pipeline.targets.mirrors:
        clustering[mirror.history] = ()
    for aggregate in pipeline.targets.aggregates:
        clustering |= {aggregate.history: (), aggregate.current: aggregate.zorder}
    return clustering


def _existing(pipeline: Pipeline, paths: TablePaths) -> dict[str, tuple[str, ...]]:
    return {name: zorder for name, zorder in tables_of(pipeline).items() if spark_tables.exists(paths.table(name))}


def _with_plan(pipeline: Pipeline, paths: TablePaths) -> dict[str, tuple[str, ...]]:
    """Return the tables that exist, with the plan of the buffer's batches, which grows by a file with each of them."""
    epoch = checkpoints.current_epoch(paths.warehouse, pipeline.name)
    plan = batch_plan.plan_of(checkpoints.checkpoint(paths.warehouse, pipeline.name, epoch))
    name = plan.removeprefix(paths.table(""))
    return _existing(pipeline, paths) | ({name: ()} if spark_tables.exists(plan) else {})


def _optimize(step: Step) -> dict[str, int]:
    """Compact small files in the tables that have enough of them."""
    pipeline, paths = step.pipeline, step.paths
    settings = pipeline.maintenance.optimize
    counts = {"tables": 0, "optimized": 0, "files_before": 0, "files_after": 0}
    for name, zorder in _with_plan(pipeline, paths).items():
        path = paths.table(name)
        before = optimize.measure(path, settings.small_file_bytes)
        counts["tables"] += 1
        counts["files_before"] += before.files
        worth = before.small >= settings.min_small_files
        if worth:
            optimize.optimize(step.spark, path, zorder)
            counts["optimized"] += 1
        counts["files_after"] += optimize.measure(path, settings.small_file_bytes).files if worth else before.files
    return counts


def _vacuum(step: Step) -> dict[str, int]:
    """Remove files that no version within the retention needs; skip a table of which a reader needs an older version.

    A vacuum takes seconds however little there is: a table without removable files is left out. A table whose log is
    kept for another time than `log_retention` says gets the property.
    """
    pipeline, paths = step.pipeline, step.paths
    retain = pipeline.maintenance.vacuum.retain
    now, declared = datetime.now(UTC), tables_of(pipeline)
    needs, held = reader_holds.needs(paths, now), reader_holds.longest(paths, now)
    counts = {"tables": 0, "vacuumed": 0, "skipped": 0, "files": 0}
    for name in _with_plan(pipeline, paths):
        counts["tables"] += 1
        path = paths.table(name)
        if name in declared:  # the log of the plan stays: Spark's stream reads on from where it stood
            log_retention.keep_log(path, log_retention.properties_of(name, retain, held))
        files = optimize.removable(path, retain)
        if not files:
            continue
        needed = [each for each in needs if name in each.versions]
        lost = reader_holds.outlived(path, {each.versions[name] for each in needed}, retain)
        refused = [each for each in needed if each.versions[name] in lost]
        for each in refused:
            LOG.warning(f"{name}: not vacuumed, its version {each.versions[name]} is needed by {each.who}")
        if refused:
            counts["skipped"] += 1
            continue
        optimize.vacuum(step.spark, path, retain)
        counts["vacuumed"] += 1
        counts["files"] += files - optimize.removable(path, retain)
    return counts


def _statistics(step: Step) -> dict[str, int]:
    """Complete data-skipping statistics, and append each table's figures to table_statistics, once for a run."""
    pipeline, paths, run_id = step.pipeline, step.paths, step.run_id
    existing = _existing(pipeline, paths)
    recomputed = sum(optimize.recompute_skipping(step.spark, paths.table(name)) for name in existing)
    known = small_tables.query(
        paths.table(names.TABLE_STATISTICS), f'select "table" from t where run_id = {text_literal(run_id)}'
    )
    done = {row["table"] for row in known}
    rows = [_figures(pipeline, paths, name, run_id) for name in existing if name not in done]
    if rows:
        small_tables.append(paths.table(names.TABLE_STATISTICS), rows, system_tables.TABLE_STATISTICS)
    return {"tables": len(existing), "measured": len(rows), "recomputed": recomputed}


def _figures(pipeline: Pipeline, paths: TablePaths, name: str, run_id: str) -> dict[str, Any]:
    path = paths.table(name)
    version = spark_tables.version(path)
    files = optimize.measure(path, pipeline.maintenance.optimize.small_file_bytes)
    count, columns = optimize.figures(path, optimize.plain_columns(path))
    stored = count + files.deleted
    return {
        "run_id": run_id,
        "table": name,
        "version": version,
        "measured_at": datetime.now(UTC),
        "rows": count,
        "bytes": files.bytes,
        "files": files.files,
        "small_files": files.small,
        "deleted_share": files.deleted / stored if stored else 0.0,
        "columns": columns,
    }


WORK = {
    "clean_history": clean_history,
    "expire": expire,
    "optimize": _optimize,
    "vacuum": _vacuum,
    "statistics": _statistics,
    "register": register_tables,
}
