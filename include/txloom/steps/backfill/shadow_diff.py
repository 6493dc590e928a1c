"""backfill, row diff: the rows in which a live table and a rebuilt one differ, each with its kind and a digest."""

import json
from hashlib import blake2b
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyValues
from txloom.current.row_diff import KEY, POSITION, VALUES, difference, with_hashes
from txloom.steps.backfill.compared_values import compared_values
from txloom.steps.backfill.scope import Target
from txloom.storage.targets.shadow_tables import DIFFERENCE, INSERTED, REPEATED, SURPLUS, UPDATED

SAMPLES = 20
"""Rows of each table that a report shows."""
TEXT = 200
"""Characters of a value that a report shows."""


def differing(now: pa.Table, rebuilt: pa.Table, target: Target) -> pa.Table:
    """Return the rows in which a live table and a rebuilt one differ.

    Args:
        now: live rows.
        rebuilt: rebuilt rows, in the same columns.
        target: the table.

    Returns:
        Rows in the schema `schema_of(target)`, in no order.
    """
    now, rebuilt = (_hashed(rows, target) for rows in (now, rebuilt))
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


def _hashed(rows: pa.Table, target: Target) -> pa.Table:
    """Return rows with the hashes of their key and of the values that are compared."""
    compared = compared_values(rows, target.listed)
    hashed = with_hashes(compared, target.key, compared.column_names)
    return rows.append_column(KEY, hashed.column(KEY)).append_column(VALUES, hashed.column(VALUES))


def _repeated(rebuilt: pa.Table, again: pa.Table, updated: pa.Table, target: Target) -> pa.Table:
    """Return rows that have the key of another row: rebuilt ones, and live ones that an apply would write.

    again: live rows but the first of each key. Rows that a history has twice, and that no apply writes, are surplus
    only.
    """
    touched = again.filter(pc.is_in(again.column(KEY), updated.column(KEY))) if target.is_history else again
    return pa.concat_tables([_unique(rebuilt)[1], touched])


def schema_of(target: Target) -> pa.Schema:
    """Return the schema of a table's differences: that of the table, and DIFFERENCE."""
    return pa.schema([*target.schema, *DIFFERENCE])


def _unique(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Split rows into the first of each key and the others."""
    placed = rows.select([KEY]).append_column(POSITION, pa.array(range(rows.num_rows), pa.int64()))
    first = placed.group_by(KEY).aggregate([(POSITION, "min")]).column(f"{POSITION}_min")
    is_first = pc.is_in(placed.column(POSITION), first.combine_chunks())
    return rows.filter(is_first), rows.filter(pc.invert(is_first))


def _kind_rows(kind: str, rows: pa.Table, target: Target, was: list[str] | None = None) -> pa.Table:
    size = rows.num_rows
    digests = [_digest(kind, key, values) for key, values in zip(*_hashes(rows), strict=True)]
    texts = [*(was or []), *[None] * size][:size]
    columns: list[AnyValues] = [rows.column(name) for name in target.schema.names]
    columns += [pa.repeat(pa.scalar(kind), size), pa.array(texts, pa.string()), pa.array(digests, pa.int64())]
    return pa.Table.from_arrays(columns, schema=schema_of(target))


def _hashes(rows: pa.Table) -> tuple[list[bytes], list[bytes]]:
    keys, values = (cast("list[bytes]", rows.column(name).to_pylist()) for name in (KEY, VALUES))
    return keys, values


def _digest(kind: str, key: bytes, values: bytes) -> int:
    """Return a number of 40 bits: the sum over eight million rows then fits into 64 bits."""
    return int.from_bytes(blake2b(kind.encode() + key + values, digest_size=5).digest(), "big")


def _texts(rows: pa.Table) -> list[str]:
    return [json.dumps(json_value(row), ensure_ascii=False) for row in rows.slice(0, SAMPLES).to_pylist()]


def json_value(value: Any) -> Any:
    """Return a value as JSON has it, with texts cut to TEXT characters."""
    if isinstance(value, dict):
        return {name: json_value(member) for name, member in value.items()}
    if isinstance(value, list):
        return [json_value(member) for member in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"
