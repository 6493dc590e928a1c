"""Two snapshots of one table: the second is what is current, the differences are the history."""

from pathlib import Path

import pytest

from public.snapshots import keyed, load
from public.source import Key, Row, Source, assert_shown, in_order, pipeline_of, source_of, table
from workloads.core import Core

SOURCE = "Databricks AUTO CDC documentation: change data capture from snapshots"
SNAPSHOTS = {
    0: "1 Oaxaca, 2 Monterrey, 3 Tijuana",
    1: "2 Carmel, 3 Los Angeles, 4 Death Valley, 6 Kings Canyon",
}
HISTORY = """
1 Oaxaca 0-1
2 Monterrey 0-1
2 Carmel 1-
3 Tijuana 0-1
3 Los Angeles 1-
4 Death Valley 1-
6 Kings Canyon 1-
"""
FIRST = 100
"""The csn of snapshot 0."""


def snapshot(number: int) -> dict[Key, Row]:
    pairs = (entry.strip().split(" ", 1) for entry in SNAPSHOTS[number].split(","))
    return keyed([{"key": int(key), "city": city} for key, city in pairs], "key")


@pytest.fixture
def source() -> Source:
    made = source_of(table("trips", "key", key="long", city="string"))
    for number in SNAPSHOTS:
        load(made, "trips", snapshot(number), FIRST + number)
    return made


def test_current_is_each_snapshot_in_turn(source: Source, tmp_path: Path) -> None:
    core = Core(pipeline_of(source, tmp_path))
    for number, each in enumerate(source.sent):
        core.run(in_order([each]))
        assert core.shown()["trips"] == snapshot(number)
        assert_shown(core, source)


@pytest.mark.parametrize("backwards", [False, True])
def test_the_history_of_two_snapshots(source: Source, backwards: bool, tmp_path: Path) -> None:
    core = Core(pipeline_of(source, tmp_path))
    for each in reversed(source.sent) if backwards else source.sent:
        core.run(in_order([each]))
    assert core.shown()["trips"] == snapshot(1)
    intervals = {f"{row['key']} {row['city']} {span(row)}" for row in core.intervals("trips")}
    assert intervals == set(HISTORY.strip().splitlines())


def span(row: Row) -> str:
    end = row["_txloom_valid_to"]
    return f"{row['_txloom_valid_from'] - FIRST}-{'' if end is None else end - FIRST}"
