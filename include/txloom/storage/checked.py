"""What expectations look at: pinned Delta versions, read without Spark."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from txloom.config import names
from txloom.config.models import OrphanExpectation, Pipeline, StuckExpectation
from txloom.storage import local
from txloom.storage.place import Place
from txloom.storage.progress import versions

SAMPLE = 20
"""Failing rows that a result shows; totals count them all."""


def current_of(pipeline: Pipeline, table: str) -> str:
    """Return the name of the flat current table of a watched table."""
    declared = {mirror.table: mirror.current for mirror in pipeline.targets.mirrors}
    return declared.get(table, names.row_store(table))


def looked_at(pipeline: Pipeline, place: Place, expectation: OrphanExpectation | StuckExpectation) -> dict[str, int]:
    """Return the tables that an expectation looks at with their versions; tables that do not exist are left out."""
    if isinstance(expectation, StuckExpectation):
        return versions(place, [names.PENDING_TRANSACTIONS])
    return versions(place, [current_of(pipeline, name) for name in (expectation.child, expectation.parent)])


def orphans(
    pipeline: Pipeline, place: Place, expectation: OrphanExpectation, at: Mapping[str, int]
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Return (`parent_exists` of every child row that names a parent, a sample of those without one).

    A child whose parent key is null names no parent.
    """
    child, parent = (current_of(pipeline, name) for name in (expectation.child, expectation.parent))
    if child not in at or parent not in at:
        return pa.table({"parent_exists": pa.array([], pa.bool_())}), []
    key = pipeline.table(expectation.parent).key
    same = " and ".join(f'c."{own}" = p."{name}"' for own, name in zip(expectation.parent_key, key, strict=True))
    named = " and ".join(f'c."{own}" is not null' for own in expectation.parent_key)
    joined = f"from c left join p on {same} where {named}"
    found = _ask(
        place, {"c": (child, at), "p": (parent, at)}, f'select p."{key[0]}" is not null as parent_exists {joined}'
    )
    shown = dict.fromkeys([*pipeline.table(expectation.child).key, *expectation.parent_key])
    columns = ", ".join(f'c."{name}"' for name in [*shown, "_txloom_csn", "_txloom_xid"])
    order = ", ".join(f'c."{name}"' for name in pipeline.table(expectation.child).key)
    lost = f'select {columns} {joined} and p."{key[0]}" is null order by {order} limit {SAMPLE}'
    return found, _ask(place, {"c": (child, at), "p": (parent, at)}, lost).to_pylist()


def waiting(
    place: Place, expectation: StuckExpectation, at: Mapping[str, int]
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Return (`age_seconds` of every waiting transaction, a sample of those that wait too long, longest first)."""
    if names.PENDING_TRANSACTIONS not in at:
        return pa.table({"age_seconds": pa.array([], pa.int64())}), []
    tables = {"t": (names.PENDING_TRANSACTIONS, at)}
    found = _ask(place, tables, "select age_seconds from t")
    longest = int(expectation.older_than.total_seconds())
    columns = "xid, csn, age_seconds, cause, expected, received"
    stuck = f"select {columns} from t where age_seconds > {longest} order by age_seconds desc, csn limit {SAMPLE}"
    rows = _ask(place, tables, stuck).to_pylist(maps_as_pydicts="strict")
    return found, rows


def _ask(place: Place, tables: Mapping[str, tuple[str, Mapping[str, int]]], sql: str) -> pa.Table:
    pinned = {alias: DeltaTable(place.table(name), version=at[name]) for alias, (name, at) in tables.items()}
    return local.ask(pinned, sql)
