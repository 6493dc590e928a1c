"""Text tables in, text tables out: what the tests of this room are written in.

`-` is null and `at` is csn.pos. A change's `before` lists what is known of the row before it, `unchanged` the columns
that it leaves out, and `release` is the one in which it came. Effects say `gone` and which columns are `missing`; where
a cell is left out, it is null.
"""

from collections.abc import Sequence

import pyarrow as pa

from txloom.current.folding.fold import fold

WHOLE_NUMBERS = {"id", "line"}
Rows = list[dict[str, str]]


def table(text: str) -> Rows:
    """Read a text table."""
    header, *lines = [line.split() for line in text.strip().splitlines()]
    return [dict(zip(header, [*line, *"-" * (len(header) - len(line))], strict=True)) for line in lines]


def rows_of(text: str, columns: Sequence[str]) -> pa.Table:
    """Read current rows."""
    rows = []
    for line in table(text):
        csn, pos = line["at"].split(".")
        system_columns = {"_txloom_csn": int(csn), "_txloom_pos": int(pos), "_txloom_xid": f"x{csn}"}
        rows.append({name: value(name, line.get(name, "-")) for name in columns} | system_columns)
    return pa.Table.from_pylist(rows, row_schema(columns))


def changes_of(text: str, columns: Sequence[str]) -> pa.Table:
    """Read changes."""
    changes = []
    for line in table(text):
        csn, pos = line["at"].split(".")
        before = dict(pair.split("=") for pair in listed(line.get("before", "-")))
        system_columns = {
            "_txloom_op": line["op"],
            "_txloom_xid": f"x{csn}",
            "_txloom_csn": int(csn),
            "_txloom_pos": int(pos),
        }
        release = line.get("release", "-")
        system_columns["_txloom_release"] = None if release == "-" else int(release)
        system_columns["_txloom_unchanged"] = listed(line.get("unchanged", "-")) or None
        system_columns["_txloom_absent"] = listed(line.get("absent", "-")) or None
        system_columns["_txloom_before"] = {name: value(name, text) for name, text in before.items()} or None
        system_columns["_txloom_before_known"] = list(before) or None
        changes.append({name: value(name, line.get(name, "-")) for name in columns} | system_columns)
    return pa.Table.from_pylist(changes, change_schema(row_schema(columns), columns))


def row_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of current rows: whole numbers and text."""
    declared = [(name, pa.int64() if name in WHOLE_NUMBERS else pa.string()) for name in columns]
    system_fields = [("_txloom_csn", pa.int64()), ("_txloom_pos", pa.int64()), ("_txloom_xid", pa.string())]
    return pa.schema([*declared, *system_fields])


def change_schema(rows: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of a mirror's history, as far as folding needs it."""
    declared = [rows.field(name) for name in columns]
    names = pa.list_(pa.string())
    system_fields = [("_txloom_op", pa.string()), ("_txloom_xid", pa.string())]
    system_fields += [("_txloom_csn", pa.int64()), ("_txloom_pos", pa.int64()), ("_txloom_unchanged", names)]
    system_fields += [
        ("_txloom_before", pa.struct(declared)),
        ("_txloom_before_known", names),
        ("_txloom_absent", names),
        ("_txloom_release", pa.int64()),
    ]
    return pa.schema([*declared, *system_fields])


def value(name: str, text: str) -> int | str | None:
    """Read a cell."""
    if text == "-":
        return None
    return int(text) if name in WHOLE_NUMBERS else text


def listed(text: str) -> list[str]:
    """Read a list of names."""
    return [] if text == "-" else text.split(",")


def folded(rows: str, changes: str, *, key: Sequence[str] = ("id",)) -> Rows:
    """Fold text into text, ordered by key."""
    extra_columns = {"op", "at", "before", "unchanged", "absent", "release"}
    columns = [name for name in changes.split("\n")[1].split() if name not in extra_columns]
    effects = fold(rows_of(rows, columns), changes_of(changes, columns), key=key, columns=columns).to_pylist()
    effects.sort(key=lambda effect: tuple(effect[name] for name in key))
    return [_line(effect, columns) for effect in effects]


def _line(effect: dict[str, object], columns: Sequence[str]) -> dict[str, str]:
    assert effect["_txloom_xid"] == f"x{effect['_txloom_csn']}"
    line = {name: "-" if effect[name] is None else str(effect[name]) for name in columns}
    line["at"] = f"{effect['_txloom_csn']}.{effect['_txloom_pos']}"
    missing = effect["_txloom_missing"]
    assert isinstance(missing, list | None)
    return line | {"gone": "yes" if effect["_txloom_deleted"] else "-", "missing": ",".join(missing or ["-"])}


def shown(text: str) -> Rows:
    """Read expected effects; columns `gone` and `missing` may be left out when they are null throughout."""
    return [{**line, "gone": line.get("gone", "-"), "missing": line.get("missing", "-")} for line in table(text)]
