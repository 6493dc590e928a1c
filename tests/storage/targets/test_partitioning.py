"""Partitions of current tables, whoever writes them: rows lie where they say, a merge touches no other partition."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from released import Released
from txloom import read
from txloom.errors import ConfigurationError
from txloom.steps.merge import rewrite_merge
from txloom.storage.delta import arrow_tables, small_merge, spark_tables

COLUMNS = "id: long, place: string, created: date, moment: timestamptz, value: long"


@pytest.fixture
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let a merge be worked out and written in this process, written by Spark, or all of it be Spark's."""
    if request.param == "held":
        monkeypatch.setattr(small_merge, "LOCAL_TABLE_BYTES", -1)
        monkeypatch.setattr(rewrite_merge, "REWRITE_BYTES", -1)
    if request.param == "spark":
        monkeypatch.setattr(arrow_tables, "LOCAL_ROWS", -1)
    return str(request.param)


def row(key: int, created: date | None, value: int, position: str | None = "hall") -> dict[str, Any]:
    return {"id": key, "place": position, "created": created, "value": value}


def lie(lake: Released, column: str = "_txloom_partition") -> dict[int, Any]:
    """Return the partition of every row by its key."""
    rows = arrow_tables.select(lake.paths.table("readings"), f'select id, "{column}" as own from t').to_pylist()
    return {row["id"]: row["own"] for row in rows}


def touched(lake: Released) -> tuple[set[str | None], set[str | None]]:
    """Return the partitions that files were removed from, and added to, by the newest commit."""
    path = Path(lake.paths.table("readings"))
    newest = path / "_delta_log" / f"{DeltaTable(path).version():020}.json"
    paths: dict[str, set[str | None]] = {"remove": set(), "add": set()}
    for line in newest.read_text().splitlines():
        for kind, action in json.loads(line).items():
            if kind in paths:
                paths[kind].add(next(iter((action["partitionValues"] or {}).values()), None))
    return paths["remove"], paths["add"]


YEARS = [row(n, date(2024 + n % 3, 5, 1), n) for n in range(12)] + [row(99, None, 99)]


STEPS: list[tuple[int, Any, set[str | None], set[str | None]]] = [
    (20, ("U", {"id": 1}, {"value": -1}), {"2025"}, {"2025"}),
    (21, ("U", {"id": 1}, {"created": date(2026, 1, 1)}), {"2025"}, {"2026"}),
    (22, ("U", {"id": 99}, {"created": date(2024, 1, 1)}), {None}, {"2024"}),
    (15, ("U", {"id": 6}, {"value": -6}), {"2024"}, {"2024"}),
    (23, ("U", {"id": 2}, {"created": None}), {"2026"}, {None}),
    (24, ("U", {"id": 3}, {"id": 33, "value": 0}), {"2024"}, {"2024"}),
    (25, ("D", {"id": 4}, {}), {"2025"}, set()),
    (26, ("I", {}, row(50, date(1999, 1, 1), 5)), set(), {"1999"}),
    (16, ("D", {"id": 7}, {}), {"2025"}, set()),
]
"""A csn, a change, and the partitions that it takes files from and adds some to; sparse updates do not tell theirs."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("written", "steps"), [("in process", STEPS), ("held", STEPS[1:4]), ("spark", STEPS[1:4])], indirect=["written"]
)
def test_a_merge_touches_the_partitions_of_what_changes_and_no_other(
    spark: Any, tmp_path: Path, written: str, steps: Any
) -> None:
    """Rows move, go, come, and are worked out again for late changes."""
    lake = Released(tmp_path, COLUMNS, "partition_by: year(created)")
    lake.release(10, [("I", {}, image) for image in YEARS])
    lake.merge(lambda: spark)
    assert lie(lake) == {n: 2024 + n % 3 for n in range(12)} | {99: None}
    for csn, change, removed, added in steps:
        lake.release(csn, [change])
        lake.merge(lambda: spark)
        gone, new = touched(lake)
        assert gone == removed and new - gone <= added, (csn, gone, new)
    if steps == STEPS:
        expected = {0: 2024, 1: 2026, 2: None, 33: 2024, 5: 2026, 6: 2024, 8: 2026, 9: 2024, 10: 2025, 11: 2026}
        assert lie(lake) == {**expected, 50: 1999, 99: 2024}
    assert_is_history(lake)


def assert_is_history(lake: Released) -> None:
    """The table holds what history says, as a reader sees it: without a column that nobody declared."""
    reached = max(
        rows["csn"] for rows in arrow_tables.select(lake.paths.table("transactions"), "select csn from t").to_pylist()
    )
    as_of = read.as_of(lake.pipeline, "readings", csn=reached, warehouse=str(lake.folder))
    stored = arrow_tables.select(lake.paths.table("readings"), "select * from t order by id, value")
    assert stored.select(as_of.column_names).to_pylist() == as_of.to_pylist()
    assert "_txloom_partition" not in as_of.column_names


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ("month(created)", "in process"),
        ("place", "in process"),
        ("created", "in process"),
        pytest.param("place", "spark", marks=pytest.mark.long),
    ],
    indirect=["written"],
)
def test_random_changes_end_in_what_history_says(spark: Any, tmp_path: Path, written: str, options: str) -> None:
    """Texts that Delta would read as null stay what they are; rows lie with others of their month, place or day."""
    random = Random(options)
    lake = Released(tmp_path, COLUMNS, f"partition_by: {options}, zorder: [value]", key="[id, value]")
    places = ["", "hall", "it's/../=%", None, "__HIVE_DEFAULT_PARTITION__", "hall\\"]
    days = [None, date(2026, 1, 31), date(2026, 2, 1), date(999, 2, 1)]

    def image() -> dict[str, Any]:
        return row(random.randrange(5), random.choice(days), random.randrange(3), random.choice(places))

    csns = [*range(10, 40, 2), 11, 25]
    at_once = 4 if written == "in process" else 9
    for merged in range(0, len(csns), at_once):
        for csn in csns[merged : merged + at_once]:
            changes: list[Any] = []
            for _ in range(4):
                new, old = image(), {"id": random.randrange(5), "value": random.randrange(3)}
                sparse = {name: new[name] for name in random.sample(["place", "created", "value"], 2)}
                kinds = [("I", {}, new), ("U", old, new), ("U", old, sparse), ("D", old, {})]
                changes.append(random.choice(kinds))
            lake.release(csn, changes)
        lake.merge(lambda: spark)
    assert_is_history(lake)
    rows = arrow_tables.select(lake.paths.table("readings"), "select * from t").to_pylist()
    assert len(rows) > 5
    for held_row in rows:
        match options:
            case "place":
                name = held_row["place"] if held_row["place"] not in ("", "__HIVE_DEFAULT_PARTITION__") else None
                assert held_row["_txloom_partition"] == name
            case "month(created)":
                day = held_row["created"]
                assert held_row["_txloom_partition"] == (day and f"{day.year:04}-{day.month:02}")
            case _:
                assert "_txloom_partition" not in held_row
    read_by_spark = spark_tables.read(spark, lake.paths.table("readings")).toArrow().to_pylist()
    order = lambda new: (new["id"], new["value"])  # noqa: E731
    assert sorted(read_by_spark, key=order) == sorted(rows, key=order)


@pytest.mark.parametrize(
    ("first", "then", "lies", "says"),
    [
        ("year(created)", "month(created)", "year(created) (_txloom_partition)", "month(created) (_txloom_partition)"),
        ("year(created)", "year(moment)", "year(created) (_txloom_partition)", "year(moment) (_txloom_partition)"),
        ("year(created)", "", "year(created) (_txloom_partition)", "nothing"),
        ("", "created", "nothing", "created"),
        ("created", "place", "created", "place (_txloom_partition)"),
    ],
)
def test_a_table_that_exists_keeps_its_partitions(tmp_path: Path, first: str, then: str, lies: str, says: str) -> None:
    lake = Released(tmp_path, COLUMNS, first and f"partition_by: {first}")
    lake.release(10, [("I", {}, row(1, date(2026, 1, 1), 1))])
    lake.merge(lambda: None)
    lake.declare(then and f"partition_by: {then}")
    path = lake.paths.table("readings")
    with pytest.raises(ConfigurationError) as error:
        lake.merge(lambda: None)
    assert str(error.value) == (
        f"the others are merged, but not readings: {path}: its rows lie by {lies}, but partition_by says {says}: "
        "declare what it was, or move this folder away, and the next merge writes the table anew out of its history"
    )
    Path(path).rename(tmp_path / "away")
    lake.merge(lambda: None)
    assert_is_history(lake)


def test_partitions_stay_when_columns_come_and_types_widen(tmp_path: Path) -> None:
    lake = Released(tmp_path, COLUMNS.replace("value: long", "value: int"), "partition_by: year(moment)")
    lake.release(10, [("I", {}, {**row(1, None, 1), "moment": new_year(2025)})])
    lake.merge(lambda: None)
    for columns in (COLUMNS, f"{COLUMNS}, note: string"):
        lake.declare("partition_by: year(moment)", columns)
        lake.release(10 + len(columns), [("U", {"id": 1}, {"moment": new_year(2026)})])
        lake.merge(lambda: None)
        assert lie(lake) == {1: 2026}
    assert DeltaTable(lake.paths.table("readings")).metadata().partition_columns == ["_txloom_partition"]


def new_year(year: int) -> Any:
    return datetime(year, 1, 1, tzinfo=UTC)
