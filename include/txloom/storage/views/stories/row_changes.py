"""Changes of some keys, out of the history that holds them: a mirror's, or the lists in an aggregate's."""

from collections.abc import Mapping, Sequence
from typing import Any

from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import sql_name
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import Row
from txloom.storage.views.stories.row_lookup import Member, equal, kinds

SYSTEM_COLUMNS = ("op", "pos", "landing", "row", "unchanged", "before", "before_known")
SHARED = ("csn", "xid", "committed_at", "release")
TOTAL = "_txloom_total"
Keys = Sequence[Mapping[str, Any]]


def of_keys(member: Member, key: Sequence[str], keys: Keys) -> str:
    """Return the SQL condition for changes of some keys, by the row before or after, and for truncates."""
    conditions, types = [f"{_system_column(member, 'op')} = 'T'"], kinds(member.table, member.by)
    for each in keys:
        values = [each[name] for name in key]
        conditions += [equal(named(member, member.by), values, types) for named in (_columns, _before)]
    return " or ".join(f"({each})" for each in conditions)


def of_lost(member: Member, keys: Keys) -> str:
    """Return the SQL condition for deletes of a child's rows whose event does not hold the parent."""
    key, parent = member.table.key, _columns(member, member.by)
    columns, types = _columns(member, key), kinds(member.table, key)
    some = " or ".join(f"({equal(columns, [each[name] for name in key], types)})" for each in keys)
    before = _before(member, member.by)[0]
    return f"{_system_column(member, 'op')} = 'D' and ({some}) and {parent[0]} is null and {before} is null"


def newest(
    paths: TablePaths, member: Member, condition: str, limit: int, rows_with: str = "true"
) -> tuple[list[Row], int]:
    """Return the newest changes that fulfil a condition, and how many fulfil it in all.

    Each change: table, SYSTEM_COLUMNS, SHARED, and image: the declared columns. rows_with: a condition on rows of an
    aggregate's history that can hold them, where one is known.
    """
    order = [
        f"_txloom_{name}" if name == "csn" else _system_column(member, name)
        for name in ("csn", "pos", "landing", "row")
    ]
    ordered = ", ".join(f"{column} desc" for column in order)
    counted = f"select *, count(*) over () as {TOTAL} from {_source(member, rows_with)} where {condition}"
    rows = small_tables.query(paths.table(member.row_table.history), f"{counted} order by {ordered} limit {limit}")
    return [_change(member, row) for row in rows], rows[0][TOTAL] if rows else 0


def _source(member: Member, rows_with: str) -> str:
    if member.row_table.mirror is not None:
        return "t"
    shared = ", ".join(f"_txloom_{name}" for name in SHARED)
    return f'(select {shared}, unnest("{member.row_table.field}") as change from t where {rows_with}) as t'


def _system_column(member: Member, name: str) -> str:
    return f"_txloom_{name}" if member.row_table.mirror is not None else f"get_field(change, '_txloom_{name}')"


def _columns(member: Member, names: Sequence[str]) -> list[str]:
    quoted = [sql_name(name) for name in names]
    return quoted if member.row_table.mirror is not None else [f"get_field(change, '{name}')" for name in names]


def _before(member: Member, names: Sequence[str]) -> list[str]:
    return [f"get_field({_system_column(member, 'before')}, '{name}')" for name in names]


def _change(member: Member, row: Row) -> Row:
    values = row if member.row_table.mirror is not None else {**row["change"], **row}
    change: Row = {
        "table": member.table.name,
        **{name: values.get(f"_txloom_{name}") for name in (*SYSTEM_COLUMNS, *SHARED)},
    }
    return change | {"image": {name: values.get(name) for name in member.table.column_names}}
