"""Change sets, one row at a time, each row a transaction of its own."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from public.source import Source, assert_shown, in_order, pipeline_of, source_of, states, table
from workloads.core import Core

SOURCE = "Simplifying Change Data Capture with Databricks Delta (databricks.com): FLAG, ID, VALUE, CDC_TIMESTAMP"
EXAMPLE = """
FLAG ID VALUE
I    1  10
U    1  11
D    1  -
U    2  20
D    3  -
"""
TABLES, LARGEST, REFRESHES = 65, 999, 3

ChangeSet = list[tuple[str, dict[str, Any]]]


def read(text: str) -> ChangeSet:
    """Read a change set out of a text table."""
    lines = [line.split() for line in text.strip().splitlines()[1:]]
    return [(flag, {"id": int(key), "value": None if value == "-" else int(value)}) for flag, key, value in lines]


def receive(source: Source, name: str, changes: ChangeSet) -> None:
    """Commit each row by itself; a deleted row is told by its image before."""
    for flag, row in changes:
        source.change(name, flag, row if flag == "D" else None, None if flag == "D" else row)
        source.commit()


def change_set(chance: Random, size: int) -> ChangeSet:
    """Make a change set whose keys come several times, with updates and deletes of rows that nobody inserted."""
    keys = max(size // 2, 1)
    rows = [{"id": chance.randint(1, keys), "value": chance.randint(0, 99)} for _ in range(size)]
    return [(chance.choice("IUUD"), row) for row in rows]


def last_flags(sets: list[ChangeSet]) -> dict[int, int]:
    """Return what the article's own rule leaves: of each key the last change, unless that is a delete."""
    last = {row["id"]: (flag, row["value"]) for changes in sets for flag, row in changes}
    return {key: value for key, (flag, value) in last.items() if flag != "D"}


def test_of_the_example_only_2_is_left(tmp_path: Path) -> None:
    source = source_of(table("t", "id", id="long", value="long"))
    core = Core(pipeline_of(source, tmp_path))
    receive(source, "t", read(EXAMPLE))
    core.run(in_order(source.sent))
    assert core.shown()["t"] == {(2,): {"id": 2, "value": 20}}
    assert core.counts["released"] == 5


def test_the_example_shows_a_state_after_each_row(tmp_path: Path) -> None:
    source = source_of(table("t", "id", id="long", value="long"))
    core = Core(pipeline_of(source, tmp_path))
    receive(source, "t", read(EXAMPLE))
    shown = [{key: row["value"] for (key,), row in state["t"].items()} for state in states(core, rows_of(source))]
    assert shown == [{1: 10}, {1: 11}, {}, {2: 20}, {2: 20}]


def rows_of(source: Source) -> list[list[tuple[str, str]]]:
    return [in_order([each]) for each in source.sent]


def test_65_tables_take_their_change_sets_in_one_pipeline(tmp_path: Path) -> None:
    chance = Random(65)
    names = [f"t{number:02}" for number in range(TABLES)]
    source = source_of(*(table(name, "id", id="long", value="long") for name in names))
    core = Core(pipeline_of(source, tmp_path))
    received: dict[str, list[ChangeSet]] = {name: [] for name in names}
    for _ in range(REFRESHES):
        begun = len(source.sent)
        sizes = [LARGEST, 1, 0, *(chance.randint(1, 120) for _ in names[3:])]
        for name, size in zip(chance.sample(names, TABLES), sizes, strict=True):
            received[name].append(change_set(chance, size))
            receive(source, name, received[name][-1])
        core.run(in_order(source.sent[begun:]))
        assert_shown(core, source)
    shown = {name: {key: row["value"] for (key,), row in core.shown()[name].items()} for name in names}
    assert shown == {name: last_flags(sets) for name, sets in received.items()}
    assert core.valid_through == source.csn and core.balanced()


def test_history_keeps_every_row_of_every_change_set(tmp_path: Path) -> None:
    source = source_of(table("t", "id", id="long", value="long"))
    core = Core(pipeline_of(source, tmp_path))
    changes = change_set(Random(1), LARGEST)
    receive(source, "t", changes)
    core.run(in_order(source.sent))
    kept = Counter(op for each in core.history["t"] for op in each.column("_txloom_op").to_pylist())
    assert kept == Counter(flag for flag, _ in changes)
