"""backfill, compare: what differs between rebuilt tables and live ones, row by row, with numbers and samples."""

import json
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.current.row_diff import KEY, POSITION, difference, with_hashes
from txloom.current.row_hashes import row_hashes
from txloom.errors import ConfigurationError
from txloom.steps.backfill.rebuild import is_small, shadow
from txloom.steps.backfill.released_events import REBUILT
from txloom.steps.backfill.scope import Scope, Target
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import sql_name
from txloom.storage.targets import shadow_tables
from txloom.storage.targets.shadow_tables import DIFFERENCE, DIGEST, INSERTED, KIND, REPEATED, SURPLUS, UPDATED, WAS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = 20
"""Rows of each table that people are shown."""
TEXT = 200
"""Characters of a value that people are shown."""
STAY = f"fate <> '{REBUILT}'"
"""Transactions whose history rows nobody could make anew."""
UNCOMPARED = ("_txloom_landing", "_txloom_row")
"""Where an event was landed: a redelivery that was dropped lies elsewhere and says the same."""
HISTORY_COUNTS = {INSERTED: "missing", UPDATED: "different", SURPLUS: "surplus"}
CURRENT_COUNTS = {INSERTED: "inserts", UPDATED: "updates", SURPLUS: "deletes"}
TWICE_IN_HISTORY = (
    "A connector that was started again inside a COPY sends two rows under one position: choose a range of csns "
    "without that transaction, or load a snapshot of the table."
)
TWICE_IN_TABLE = "Move the table's folder away: the next merge writes it anew out of its history."
CHANGES = ("missing", "different", "inserts", "updates", "deletes")
"""Counts of rows that an apply changes; what history has too much stays, and is only told."""


def compare_shadows(spark: "Callable[[], SparkSession]", scope: Scope) -> dict[str, dict[str, Any]]:
    """Write the differences of every table; return its counts, digest and samples by its name."""
    targets = [*scope.histories, *scope.currents]
    if is_small(scope):
        for target in targets:
            differences = differing(live(scope, target), shadow(scope, target), target)
            shadow_tables.write(scope.paths.table(names.difference_table(target.name)), differences)
    else:
        from txloom.steps.backfill import spark as backfill_spark

        for target in targets:
            backfill_spark.compare(spark(), scope, target)
    for target in targets:
        _refuse_repeated(scope, target)
    return {target.name: _counts_shown(scope, target) for target in targets}


def _refuse_repeated(scope: Scope, target: Target) -> None:
    """Refuse a table in which a row that is to be written has the key of another: which one is meant is not known."""
    key_columns = ", ".join(sql_name(name) for name in target.key)
    some = shadow_tables.differences(
        scope.paths, target.name, f"{KIND} = '{REPEATED}'", f"order by {key_columns} limit 1"
    ).to_pylist()
    if some:
        key_shown = ", ".join(f"{name} {_plain(some[0][name])}" for name in target.key)
        raise ConfigurationError(
            f"backfill {scope.run_id}: {target.name} has several rows with the key {key_shown}: nothing was compared "
            "or "
            "applied. " + (TWICE_IN_HISTORY if target.is_history else TWICE_IN_TABLE)
        )


def live(scope: Scope, target: Target) -> pa.Table:
    """Return the live rows that a rebuilt table is compared with: not those of transactions that stay as they are."""
    where = scope.range_of(target) if target.is_history else "true"
    rows = shadow_tables.live(scope.paths.table(target.name), target.schema, where)
    if not target.is_history:
        return rows
    kept = arrow_tables.select(
        scope.paths.table(names.shadow_table(names.TRANSACTIONS)), f"select xid, csn from t where {STAY}"
    )
    if not kept.num_rows:
        return rows
    hashes = row_hashes(rows, ("_txloom_xid", "_txloom_csn"))
    return rows.filter(pc.invert(pc.is_in(hashes, row_hashes(kept, ("xid", "csn")))))


def differing(now: pa.Table, rebuilt: pa.Table, target: Target) -> pa.Table:
    """Return the rows in which a live table and a rebuilt one differ: their schema, and DIFFERENCE."""
    columns = [name for name in target.schema.names if name not in UNCOMPARED]
    now, rebuilt = (with_hashes(rows, target.key, columns) for rows in (now, rebuilt))
    unique, again = _unique(now)
    differences = difference(unique, rebuilt)
    twice = _repeated(rebuilt, again, rebuilt.take(differences.updated), target)
    replaced = unique.take(differences.replaced).select(target.schema.names)
    surplus = pa.concat_tables([unique.take(differences.missing), again])
    parts = [
        _kind_rows(INSERTED, rebuilt.take(differences.inserted), target),
        _kind_rows(UPDATED, rebuilt.take(differences.updated), target, _texts(replaced)),
        _kind_rows(SURPLUS, surplus, target),
        _kind_rows(REPEATED, twice, target),
    ]
    return pa.concat_tables(parts)


def _repeated(rebuilt: pa.Table, again: pa.Table, updated: pa.Table, target: Target) -> pa.Table:
    """Return rows that share their key with another: rebuilt ones, and live ones that an apply would write.

    again: live rows but the first of each key. What a history has twice, and no apply would touch, is surplus alone.
    """
    touched = again.filter(pc.is_in(again.column(KEY), updated.column(KEY))) if target.is_history else again
    return pa.concat_tables([_unique(rebuilt)[1], touched])


def schema_of(target: Target) -> pa.Schema:
    """Return the schema of a table's differences."""
    return pa.schema([*target.schema, *DIFFERENCE])


def _unique(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Part rows into the first of each key and the others."""
    placed = rows.select([KEY]).append_column(POSITION, pa.array(range(rows.num_rows), pa.int64()))
    first = placed.group_by(KEY).aggregate([(POSITION, "min")]).column(f"{POSITION}_min")
    is_first = pc.is_in(placed.column(POSITION), first.combine_chunks())
    return rows.filter(is_first), rows.filter(pc.invert(is_first))


def _kind_rows(kind: str, rows: pa.Table, target: Target, was: list[str] | None = None) -> pa.Table:
    size = rows.num_rows
    digests = [_digest(kind, key, values) for key, values in zip(*_hashes(rows), strict=True)]
    texts = [*(was or []), *[None] * size][:size]
    verdicts = [pa.repeat(pa.scalar(kind), size), pa.array(texts, pa.string()), pa.array(digests, pa.int64())]
    return pa.Table.from_arrays(
        [*(rows.column(name) for name in target.schema.names), *verdicts], schema=schema_of(target)
    )


def _hashes(rows: pa.Table) -> tuple[list[bytes], list[bytes]]:
    return rows.column(KEY).to_pylist(), rows.column("_txloom_values").to_pylist()


def _digest(kind: str, key: bytes, values: bytes) -> int:
    """Return a number of 40 bits, so that those of eight million rows add up."""
    return int.from_bytes(blake2b(kind.encode() + key + values, digest_size=5).digest(), "big")


def _texts(rows: pa.Table) -> list[str]:
    return [json.dumps(_plain(row), ensure_ascii=False) for row in rows.slice(0, SAMPLES).to_pylist()]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, long texts cut."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def _counts_shown(scope: Scope, target: Target) -> dict[str, Any]:
    """Return counts, digest and samples of a table's differences."""
    kinds, digest = shadow_tables.counts(scope.paths, target.name)
    called = HISTORY_COUNTS if target.is_history else CURRENT_COUNTS
    counts = {called_as: kinds.get(kind, 0) for kind, called_as in called.items()}
    samples = [sample for kind in called for sample in _samples(scope, target, kind, called[kind])]
    return {"counts": counts, "digest": digest, "samples": samples[:SAMPLES]}


def _samples(scope: Scope, target: Target, kind: str, called: str) -> list[dict[str, Any]]:
    """Return some rows of one kind: key, before and after; of updated ones the columns that differ."""
    where = f"{KIND} = '{kind}'" + (f" and {WAS} is not null" if kind == UPDATED else "")
    order = ", ".join(sql_name(name) for name in target.key)
    differences = shadow_tables.differences(scope.paths, target.name, where, f"order by {order} limit {SAMPLES}")
    samples = []
    for row in differences.to_pylist():
        was, _ = row.pop(WAS), (row.pop(KIND), row.pop(DIGEST))
        after = _plain({name: row[name] for name in target.schema.names if name not in UNCOMPARED})
        key = {name: after[name] for name in target.key}
        before = {name: value for name, value in json.loads(was).items() if name in after} if was else None
        if kind == SURPLUS:
            before, after = after, None
        elif before is not None:
            changed = [name for name in after if after[name] != before[name]]
            before, after = ({name: side[name] for name in changed} for side in (before, after))
        samples.append({"kind": called, "key": key, "before": before, "after": after})
    return samples
