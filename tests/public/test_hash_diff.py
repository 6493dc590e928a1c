"""A day's extract against the day before: keys and values are compared typed, the differences are one transaction."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pyarrow.compute as pc
import pytest

from current.texts import change_schema, row_schema
from public.snapshots import keyed, load
from public.source import Key, Row, Source, assert_shown, in_order, pipeline_of, source_of, table
from txloom.current.folding.fold import fold
from workloads.core import Core

SOURCE = "Change Data Capture at Scale using Spark (avensolutions/cdc-at-scale-using-spark)"
ROWS, REPLACED, UPDATED = 10_000, 2_000, 4_000
KEYS = [f"key_{number}" for number in range(5)]
VALUES = [f"value_{number}" for number in range(10)]
DAY_1, DAY_2 = 20190618, 20190619


def row_of(chance: Random) -> Row:
    """Return a row of the example's generator: a composite key of five uuids, ten random numbers."""
    ids = {name: str(UUID(int=chance.getrandbits(128))) for name in KEYS}
    return ids | {name: chance.randint(0, 10**6) for name in VALUES}


def next_day(rows: dict[Key, Row], chance: Random) -> dict[Key, Row]:
    """Replace 20 % of the rows by new keys, update 40 %, leave 40 % alone."""
    keys = chance.sample(list(rows), len(rows))
    kept = {key: dict(rows[key]) for key in keys[REPLACED:]}
    for key in keys[REPLACED : REPLACED + UPDATED]:
        kept[key]["value_3"] += 1
    return kept | keyed([row_of(chance) for _ in range(REPLACED)], *KEYS)


@dataclass
class Days:
    """Two days that went through the core, and what the differences were."""

    source: Source
    core: Core
    rows: dict[Key, Row]
    differences: list[Counter[str]]


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Days:
    chance = Random(20190618)
    columns = {**dict.fromkeys(KEYS, "string"), **dict.fromkeys(VALUES, "long")}
    source = source_of(table("synthetic", " ".join(KEYS), **columns))
    core = Core(pipeline_of(source, tmp_path_factory.mktemp("days")))
    rows = keyed([row_of(chance) for _ in range(ROWS)], *KEYS)
    loads = [load(source, "synthetic", rows, DAY_1)]
    core.run(in_order(source.sent))
    rows = next_day(rows, chance)
    loads.append(load(source, "synthetic", rows, DAY_2))
    core.run(in_order(source.sent[1:]))
    return Days(source, core, rows, loads)


def test_the_differences_are_2000_new_2000_deleted_and_4000_updated_rows(days: Days) -> None:
    assert days.differences == [Counter(I=10_000), Counter(I=2_000, D=2_000, U=4_000)]


def test_current_is_the_second_day(days: Days) -> None:
    assert days.core.shown()["synthetic"] == days.rows
    assert_shown(days.core, days.source)


def test_the_last_change_of_each_current_row_says_new_updated_or_untouched(days: Days) -> None:
    """The example counts I 2,000, U 4,000, N 4,000 in its current object."""
    current = days.core.rows["synthetic"]
    of_today = current.filter(pc.equal(current.column("_txloom_csn"), DAY_2)).num_rows
    assert (current.num_rows, of_today, current.num_rows - of_today) == (10_000, 6_000, 4_000)


def test_the_history_of_the_day_holds_its_changes_and_nothing_else(days: Days) -> None:
    changes = [each for each in days.core.history["synthetic"] if each.column("_txloom_csn")[0].as_py() == DAY_2]
    ops = [op for each in changes for op in each.column("_txloom_op").to_pylist()]
    assert Counter(ops) == Counter(I=2_000, D=2_000, U=4_000)


def test_4000_intervals_are_unbroken(days: Days) -> None:
    spans = Counter((r["_txloom_valid_from"], r["_txloom_valid_to"]) for r in days.core.intervals("synthetic"))
    assert spans == {(DAY_1, None): 4_000, (DAY_1, DAY_2): 2_000 + 4_000, (DAY_2, None): 4_000 + 2_000}


PARTS = table("parts", "a b", a="string", b="string", note="string")


def parts(*rows: tuple[str, str, str | None]) -> dict[Key, Row]:
    return keyed([dict(zip(("a", "b", "note"), row, strict=True)) for row in rows], "a", "b")


def test_keys_whose_joined_text_is_equal_are_two_keys(tmp_path: Path) -> None:
    source = source_of(PARTS)
    core = Core(pipeline_of(source, tmp_path))
    load(source, "parts", parts(("ab", "c", "1"), ("a", "bc", "2"), ("abc", "", "3"), ("", "abc", "4")))
    load(source, "parts", parts(("ab", "c", "changed"), ("abc", "", "3"), ("", "abc", "4")))
    for each in source.sent:
        core.run(in_order([each]))
        assert_shown(core, source)
    assert {key: row["note"] for key, row in core.shown()["parts"].items()} == {
        ("ab", "c"): "changed",
        ("abc", ""): "3",
        ("", "abc"): "4",
    }


@pytest.mark.parametrize(("first", "then"), [(None, ""), ("", None), ("", "null"), (None, "None")])
def test_null_and_the_text_that_looks_like_it_differ(first: str | None, then: str | None, tmp_path: Path) -> None:
    source = source_of(PARTS)
    core = Core(pipeline_of(source, tmp_path))
    load(source, "parts", parts(("a", "b", first)))
    assert load(source, "parts", parts(("a", "b", then))) == {"U": 1}
    core.run(in_order(source.sent))
    assert [row["note"] for row in core.shown()["parts"].values()] == [then]
    assert [row["note"] for row in core.intervals("parts")] == [first, then]


def test_null_is_no_empty_key_but_none_at_all() -> None:
    """A row whose key is null would be another one than the row whose key is ''; it is refused, not taken for it."""
    columns = ("key", "part", "note")
    system_columns = {"_txloom_csn": 1, "_txloom_pos": 1, "_txloom_xid": "x", "_txloom_op": "I"}
    schema = change_schema(row_schema(columns), columns)
    empty, null = ({"key": "a", "part": part, "note": "n", **system_columns} for part in ("", None))

    def folded(row: dict[str, Any]) -> list[dict[str, Any]]:
        changes = schema.empty_table().from_pylist([row], schema)
        rows: list[dict[str, Any]] = fold(
            row_schema(columns).empty_table(), changes, key=("key", "part"), columns=columns
        ).to_pylist()
        return rows

    assert [row["part"] for row in folded(empty)] == [""]
    with pytest.raises(ValueError, match=r"changes without a key \(key, part\) cannot be folded"):
        folded(null)
