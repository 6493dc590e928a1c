"""backfill, compare: which rows differ between rebuilt tables and live ones, with counts and samples."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from txloom.errors import ConfigurationError
from txloom.steps.backfill.compared_values import UNCOMPARED
from txloom.steps.backfill.scope import Scope, Target
from txloom.steps.backfill.shadow_diff import SAMPLES, json_value
from txloom.steps.backfill.table_comparison import Comparison
from txloom.storage.declarations.undeclared_columns import listed_since
from txloom.storage.delta.sql import sql_name
from txloom.storage.targets import shadow_tables
from txloom.storage.targets.shadow_tables import DIGEST, INSERTED, KIND, REPEATED, SURPLUS, UPDATED, WAS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORY_COUNTS = {INSERTED: "missing", UPDATED: "different", SURPLUS: "surplus"}
CURRENT_COUNTS = {INSERTED: "inserts", UPDATED: "updates", SURPLUS: "deletes"}
TWICE_IN_HISTORY = (
    "A connector that was started again inside a COPY sends two rows under one position: choose a range of csns "
    "without that transaction, or load a snapshot of the table."
)
TWICE_IN_TABLE = "Move the table's folder away: the next merge writes it anew out of its history."
CHANGES = ("missing", "different", "inserts", "updates", "deletes")
"""Counts of rows that an apply changes. Surplus rows of history stay, and are only reported."""


def compare_shadows(session: "Callable[[], SparkSession]", scope: Scope) -> dict[str, dict[str, Any]]:
    """Replace the difference tables of a backfill; return counts, digest and samples by table.

    Args:
        session: opens a Spark session, where its tasks compare large tables.
        scope: the backfill.

    Raises:
        ConfigurationError: if several rows of a table have one key, so that it is not known which one is meant.
    """
    histories = [replace(each, listed=listed_since(scope.pipeline, scope.paths, each.name)) for each in scope.histories]
    targets = [*histories, *scope.currents]
    for target in targets:
        Comparison(scope, target).write(session)
    for target in targets:
        refuse_repeated(scope, target)
    return {target.name: _counts_shown(scope, target) for target in targets}


def refuse_repeated(scope: Scope, target: Target) -> None:
    """Raise ConfigurationError if a row that is to be written has the key of another one."""
    key_columns = ", ".join(sql_name(name) for name in target.key)
    some = shadow_tables.differences(
        scope.paths, target.name, f"{KIND} = '{REPEATED}'", f"order by {key_columns} limit 1"
    ).to_pylist()
    if some:
        key_shown = ", ".join(f"{name} {json_value(some[0][name])}" for name in target.key)
        raise ConfigurationError(
            f"backfill {scope.run_id}: {target.name} has several rows with the key {key_shown}: nothing was compared "
            "or "
            "applied. " + (TWICE_IN_HISTORY if target.is_history else TWICE_IN_TABLE)
        )


def counts_of(scope: Scope, target: Target) -> dict[str, int]:
    """Return how many differences of each kind a table has, as they are counted for its kind of table."""
    kinds, _ = shadow_tables.counts(scope.paths, target.name)
    return {called: kinds.get(kind, 0) for kind, called in _called(target).items()}


def _called(target: Target) -> dict[str, str]:
    return HISTORY_COUNTS if target.is_history else CURRENT_COUNTS


def _counts_shown(scope: Scope, target: Target) -> dict[str, Any]:
    """Return counts, digest and samples of a table's differences."""
    _, digest = shadow_tables.counts(scope.paths, target.name)
    called, counts = _called(target), counts_of(scope, target)
    samples = [sample for kind in called for sample in _samples(scope, target, kind, called[kind])]
    return {"counts": counts, "digest": digest, "samples": samples[:SAMPLES]}


def _samples(scope: Scope, target: Target, kind: str, called: str) -> list[dict[str, Any]]:
    """Return up to SAMPLES rows of one kind: key, before and after; of updated ones only the columns that differ."""
    where = f"{KIND} = '{kind}'" + (f" and {WAS} is not null" if kind == UPDATED else "")
    order = ", ".join(sql_name(name) for name in target.key)
    differences = shadow_tables.differences(scope.paths, target.name, where, f"order by {order} limit {SAMPLES}")
    samples = []
    for row in differences.to_pylist():
        was, _ = row.pop(WAS), (row.pop(KIND), row.pop(DIGEST))
        after = json_value({name: row[name] for name in target.schema.names if name not in UNCOMPARED})
        key = {name: after[name] for name in target.key}
        before = {name: value for name, value in json.loads(was).items() if name in after} if was else None
        if kind == SURPLUS:
            before, after = after, None
        elif before is not None:
            changed = [name for name in after if after[name] != before[name]]
            before, after = ({name: side[name] for name in changed} for side in (before, after))
        samples.append({"kind": called, "key": key, "before": before, "after": after})
    return samples
