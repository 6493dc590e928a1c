"""The rules of folding told once more, slowly and plainly: a world of rows that changes act on one by one."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from current.texts import change_schema, row_schema

COLUMNS = ("id", "name", "note")
Stamp = tuple[int, int]


@dataclass(frozen=True)
class Change:
    """One change. before: what is known of the row before it. absent: columns that the table no longer has."""

    op: str
    at: Stamp
    id: int | None = None
    values: tuple[str | None, str | None] = (None, None)
    unchanged: tuple[str, ...] = ()
    before: tuple[tuple[str, Any], ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def old(self) -> int | None:
        """Return the key of the row that the change acts on."""
        return dict(self.before).get("id", self.id) if self.op == "U" else self.id


@dataclass
class Standing:
    """A row of the world."""

    id: int | None
    values: dict[str, Any]
    missing: set[str] = field(default_factory=set)


Effect = tuple[Stamp, dict[str, Any] | None, list[str] | None]


def interpret(changes: list[Change]) -> dict[int, Effect]:
    """Return, per touched key, its last change, its row (None: gone) and what is missing of it."""
    world: list[Standing] = []
    touched: dict[int, Stamp] = {}
    csn = None
    for change in sorted(set(changes), key=lambda change: change.at):
        if csn not in (None, change.at[0]):
            world = [row for i, row in enumerate(world) if row.id not in [later.id for later in world[i + 1 :]]]
        csn = change.at[0]
        if change.op == "T":
            touched |= {row.id: change.at for row in world if row.id is not None}
            world = []
            continue
        for row, name in ((row, name) for row in world for name in change.absent if name in row.values):
            if row.values[name] is not None and row.id is not None:
                touched[row.id] = change.at
                row.values[name] = None
        if change.op == "C":
            continue
        assert change.id is not None and change.old is not None
        touched |= {change.old: change.at, change.id: change.at}
        act(world, change)
    collected: dict[int, Effect] = {key: (at, None, None) for key, at in touched.items()}
    for row in world:
        assert row.id is not None
        collected[row.id] = touched[row.id], {"id": row.id, **row.values}, sorted(row.missing) or None
    return collected


def act(world: list[Standing], change: Change) -> None:
    """Let one change act on the world; a row that moves stands behind those that were at its key before."""
    counts: dict[str, Any] = dict(zip(("name", "note"), change.values, strict=True))
    first = next((row for row in world if row.id == change.old), None)
    if change.op in "Ir":
        world[:] = [row for row in world if row.id != change.id]
        world.append(Standing(change.id, counts))
    elif change.op == "D" and first:
        world.remove(first)
    elif change.op == "U":
        left = {name for name in change.unchanged if name in counts}
        row = first or Standing(change.old, {name: dict(change.before).get(name) for name in counts}, set(counts))
        if not first:
            row.missing -= dict(change.before).keys()
            world.append(row)
        row.values = {name: row.values[name] if name in left else counts[name] for name in counts}
        row.missing &= left
        if change.id != change.old:
            world[:] = [other for other in world if other is not row]
            world.append(row)
            row.id = change.id


def as_table(changes: list[Change]) -> pa.Table:
    """Write changes as a mirror's history."""
    rows = []
    for change in changes:
        line = dict(zip(COLUMNS, (change.id, *change.values), strict=True))
        csn, pos = change.at
        system_columns = {"_txloom_op": change.op, "_txloom_xid": f"x{csn}", "_txloom_csn": csn, "_txloom_pos": pos}
        system_columns |= {
            "_txloom_unchanged": list(change.unchanged) or None,
            "_txloom_before": dict(change.before) or None,
        }
        system_columns["_txloom_absent"] = list(change.absent) or None
        system_columns["_txloom_before_known"] = [name for name, _ in change.before] or None
        rows.append(line | system_columns)
    return pa.Table.from_pylist(rows, change_schema(row_schema(COLUMNS), COLUMNS))


def as_effects(given_effects: pa.Table) -> dict[int, Effect]:
    """Read what `fold` returned."""
    effects: dict[int, Effect] = {}
    for line in given_effects.to_pylist():
        assert line["id"] not in effects
        row = {name: line[name] for name in COLUMNS}
        if line["_txloom_deleted"]:
            assert row == {"id": line["id"], "name": None, "note": None}
        at = line["_txloom_csn"], line["_txloom_pos"]
        assert line["_txloom_xid"] == f"x{at[0]}"
        effects[line["id"]] = at, None if line["_txloom_deleted"] else row, line["_txloom_missing"]
    return effects


def applied(rows: pa.Table, effects: pa.Table) -> pa.Table:
    """Merge effects into rows, as a MERGE by key does."""
    keep = {line["id"]: line for line in rows.to_pylist()}
    for line in effects.to_pylist():
        keep.pop(line["id"], None)
        if not line["_txloom_deleted"]:
            keep[line["id"]] = {name: line[name] for name in rows.column_names}
    return pa.Table.from_pylist([keep[key] for key in sorted(keep)], rows.schema)
