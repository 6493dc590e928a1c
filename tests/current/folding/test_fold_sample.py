"""A real capture: folding it in steps gives the states that the oracle, an independent reading, finds."""

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from current.texts import change_schema
from oracle import capture, declarations
from oracle.capture import Event, Image, Key
from oracle.state import Source
from txloom.current.folding.fold import fold

STEPS = 12
SYSTEM_COLUMNS = [("_txloom_csn", pa.int64()), ("_txloom_pos", pa.int64()), ("_txloom_xid", pa.string())]


@cache
def heard() -> tuple[capture.Capture, Source]:
    transactions = capture.read(capture.arrivals())
    return transactions, Source(transactions)


def change(event: Event, columns: list[str]) -> dict[str, object]:
    """Write an event as a row of the history; all values stay text."""
    before, after = event.before or {}, event.after or {}
    image = before if event.op == "D" else before | after
    left = [name for name in columns if event.op == "U" and name not in after]
    given = {"before": event.before, "before_known": list(before), "unchanged": left}
    system_columns = {"op": event.op, "csn": event.csn, "pos": event.pos, "xid": event.xid, **given}
    shown = {name: None if name in left else image.get(name) for name in columns}
    return shown | {f"_txloom_{name}": value for name, value in system_columns.items()}


def merged(rows: pa.Table, effects: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Replace what effects name."""
    untouched = rows.join(effects.select(list(key)), list(key), join_type="left anti").select(rows.column_names)
    alive = effects.filter(pc.invert(effects.column("_txloom_deleted"))).select(rows.column_names)
    return pa.concat_tables([untouched, alive])


def state(rows: pa.Table, table: declarations.Table) -> dict[Key, Image]:
    lines = rows.select(list(table.columns)).to_pylist()
    return {tuple(line[name] for name in table.key): line for line in lines}


@pytest.mark.parametrize("name", declarations.TABLES)
def test_every_step_of_folding_a_real_capture_is_a_state_of_its_source(name: str) -> None:
    result, source = heard()
    table = declarations.TABLES[name]
    columns = list(table.columns)
    schema = pa.schema([*((column, pa.string()) for column in columns), *SYSTEM_COLUMNS])
    rows, done = schema.empty_table(), -1
    for csn in [*source.csns[:: len(source.csns) // STEPS], source.csns[-1]]:
        new = [t for t in result.transactions if t.whole and done < t.csn <= csn]
        changes = [change(event, columns) for t in reversed(new) for event in t.events if event.table == name]
        given = pa.Table.from_pylist(changes, change_schema(schema, columns))
        effects = fold(rows, given, key=table.key, columns=columns)
        assert effects.column("_txloom_missing").null_count == len(effects)
        rows, done = merged(rows, effects, table.key), csn
        assert state(rows, table) == source.state_as_of(csn)[name]
    assert done == source.csns[-1] and len(rows)
