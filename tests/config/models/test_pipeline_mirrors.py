"""Options for many mirrors at once, and what partitions them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from txloom.config import load
from txloom.config.models.partitions import Partition
from txloom.config.models.pipeline import Mirror, Pipeline
from txloom.errors import ConfigurationError

PLANT = """\
name: plant
source: {format: change_sets, files: {path: inbox}}
completeness: {rule: single}
tables:
  - name: "readings_{1..3}"
    source: PLANT.{name}
    columns: {id: long, created: timestamp, day: date, place: string, tags: array<string>}
    key: [id]
  - name: "states_{1..2}"
    source: PLANT.{name}
    columns: {id: long, created: string}
    key: [id]
targets:
  mirrors: MIRRORS
"""
Refused = Callable[[str], str]


def declared(mirrors: str) -> Pipeline:
    Path("plant.yaml").write_text(PLANT.replace("MIRRORS", mirrors))
    return load("plant.yaml")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(mirrors: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        declared(mirrors)
    return str(error.value).replace("plant.yaml:14: targets.mirrors", "")


def test_a_pattern_gives_its_options_to_every_table_that_it_matches() -> None:
    mirrors = declared('[{table: "readings_*", partition_by: year(created), zorder: [id]}, "states_?"]').targets.mirrors
    assert mirrors == (
        *[Mirror(table=f"readings_{n}", partition_by=Partition("created", "year"), zorder=("id",)) for n in (1, 2, 3)],
        Mirror(table="states_1"),
        Mirror(table="states_2"),
    )
    assert [(mirror.current, mirror.history) for mirror in mirrors[:1]] == [("readings_1", "readings_1_changes")]


@pytest.mark.parametrize("named_first", [True, False])
def test_a_table_named_by_itself_is_no_patterns(named_first: bool) -> None:
    named = "{table: readings_2, current: second}"
    pattern = '{table: "readings_*", zorder: [id]}'
    mirrors = declared(f"[{named}, {pattern}]" if named_first else f"[{pattern}, {named}]").targets.mirrors
    assert {(mirror.table, mirror.current, mirror.zorder) for mirror in mirrors} == {
        ("readings_1", "readings_1", ("id",)),
        ("readings_2", "second", ()),
        ("readings_3", "readings_3", ("id",)),
    }


def test_two_patterns_do_not_match_one_table() -> None:
    assert refused('[{table: "readings_*", zorder: [id]}, "*"]') == (
        "[1]: found '*' for readings_1 and 2 more, expected a pattern of tables that no other one matches. "
        "targets.mirrors[0].table in line 14 matches too; a table named by itself belongs to neither."
    )


def test_patterns_that_meet_at_a_table_named_by_itself_do_not_meet() -> None:
    mirrors = declared('["*_1", readings_2, states_1, readings_3, "readings_*", states_2, readings_1]').targets.mirrors
    assert sorted(mirror.table for mirror in mirrors) == [
        "readings_1", "readings_2", "readings_3", "states_1", "states_2"
    ]  # fmt: skip
    assert refused('["*_1", "readings_*", readings_2]') == (
        "[1]: found 'readings_*' for readings_1, expected a pattern of tables that no other one matches. "
        "targets.mirrors[0] in line 14 matches too; a table named by itself belongs to neither."
    )


def test_a_pattern_has_no_name_of_its_own() -> None:
    assert refused('[{table: "states_*", current: states, history: all_states}]') == (
        "[0].current: found 'states', expected no name where a pattern stands for several tables. "
        "Name the table by itself.\n"
        "[0].history: found 'all_states', expected no name where a pattern stands for several tables. "
        "Name the table by itself."
    )


def test_options_fit_every_table_of_a_pattern_or_name_one_that_they_do_not_fit() -> None:
    assert refused('[{table: "*", partition_by: place, zorder: [day, tags]}]') == (
        "[0].partition_by: found 'place', expected a declared column of states_1.\n"
        "[0].zorder[0]: found 'day', expected a declared column of states_1.\n"
        "[0].zorder[1]: found 'tags' of type array<string> in readings_1, expected a column to cluster by, not array, "
        "json, binary or boolean.\n"
        "[0].zorder[1]: found 'tags', expected a declared column of states_1."
    )
    assert refused('[{table: "*", partition_by: year(created)}]') == (
        "[0].partition_by: found 'created' of type string in states_1, expected a date, timestamp or timestamptz to "
        "take the year of."
    )


@pytest.mark.parametrize(
    ("text", "partition"),
    [
        ("place", Partition("place")),
        ("day", Partition("day")),
        ("year(created)", Partition("created", "year")),
        ("month( day )", Partition("day", "month")),
        ("day(created)", Partition("created", "day")),
    ],
)
def test_a_column_or_a_unit_of_one_partitions(text: str, partition: Partition) -> None:
    assert declared(f'[{{table: "readings_*", partition_by: "{text}"}}]').targets.mirrors[0].partition_by == partition


EXPECTED = "expected a column, or the year, month or day of one, such as year(created)."


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("years(created)", " Did you mean 'year(created)'?"),
        ("Month(created)", " Did you mean 'month(created)'?"),
        ("hour(created)", ""),
        ("year(created", ""),
        ("year()", ""),
        ("year(created) + 1", ""),
        ("created, place", ""),
    ],
)
def test_anything_else_does_not(text: str, hint: str) -> None:
    result = refused(f'[{{table: readings_1, partition_by: "{text}"}}]')
    assert result == f"[0].partition_by: found '{text}', {EXPECTED}{hint}"


def test_a_moment_makes_no_partition() -> None:
    assert refused("[{table: readings_1, partition_by: created}]") == (
        "[0].partition_by: found 'created' of type timestamp in readings_1, expected year(created), month(created) or "
        "day(created). Every moment would be a partition by itself."
    )


def test_a_table_may_be_clustered_by_what_its_partitions_are_a_unit_of() -> None:
    assert declared("[{table: readings_1, partition_by: day(created), zorder: [created]}]").targets.mirrors[0].zorder
