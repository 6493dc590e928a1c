"""The row before and after each change, as far as the changes show it; no table is read here."""

from collections.abc import Mapping, Sequence
from typing import Any

from txloom.config.models.pipeline import Table
from txloom.storage.views.paging import Row

Values = dict[str, Any]
States = dict[tuple[Any, ...], Values | None]


def with_states(changes: Sequence[Row], tables: Mapping[str, Table]) -> list[Row]:
    """Return changes, oldest first, with key, old_key, before, after, changed and unknown columns.

    before, after: None where there was no row; a column whose value is unknown is left out. The row before a change is
    taken from the change itself, else from the changes before it.
    """
    states: dict[str, States] = {}
    return [_step(each, tables[each["table"]], states.setdefault(each["table"], {})) for each in changes]


def _step(change: Row, table: Table, states: States) -> Row:
    kept = {
        name: change[name] for name in ("table", "op", "csn", "xid", "pos", "committed_at", "release", "landing", "row")
    }
    if change["op"] == "T":
        states.update(dict.fromkeys(states))
        return {**kept, "key": None, "old_key": None, "before": None, "after": None, "changed": [], "unknown": []}
    new = tuple(change["image"][name] for name in table.key)
    known = {name: change["before"][name] for name in change["before_known"] or () if change["before"] is not None}
    old = tuple(known.get(name, value) for name, value in zip(table.key, new, strict=True))
    before = _before(change, known, states.get(old))
    after = _after(change, before or {})
    unknown = [name for name in table.column_names if change["op"] == "U" and name not in (before or {})]
    if old != new:
        states[old] = None
    states[new] = after
    return {
        **kept,
        "key": dict(zip(table.key, new, strict=True)),
        "old_key": dict(zip(table.key, old, strict=True)) if old != new else None,
        "before": before,
        "after": after,
        "changed": _changed(before, after, table),
        "unknown": unknown,
    }


def _before(change: Row, known: Values, state: Values | None) -> Values | None:
    """Return the row before a change: the change's values count before those of earlier changes."""
    if change["op"] == "D":
        image = {name: value for name, value in change["image"].items() if value is not None}
        return {**(state or {}), **image, **known}
    if change["op"] == "U":
        return {**(state or {}), **known}
    return state


def _after(change: Row, before: Values) -> Values | None:
    if change["op"] == "D":
        return None
    left = set(change["unchanged"] or ())
    given = {name: value for name, value in change["image"].items() if name not in left}
    return given | {name: before[name] for name in left if name in before}


def _changed(before: Values | None, after: Values | None, table: Table) -> list[str]:
    """Return the columns whose value is known to have changed; none for an insert or a delete."""
    if before is None or after is None:
        return []
    both = before.keys() & after.keys()
    return [name for name in table.column_names if name in both and before[name] != after[name]]
