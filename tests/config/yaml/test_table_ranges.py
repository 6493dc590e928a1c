"""Entries that declare several tables of one shape, by a list or a range of names."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from txloom.config import load
from txloom.config.json_schema import schema_text
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError

PLANT = """\
name: plant
source:
  format: change_sets
  files:
    path: inbox
completeness:
  rule: single
tables:
  - name: "readings_{01..03}"
    source: PLANT.{name}
    columns:
      id: long
      created: timestamp
      tags: array<string>
    key: [id]
    version: id
  - name: visits
    source: PLANT.VISITS
    columns: {place: string}
    key: none
targets:
  mirrors: ["*"]
"""
Declare = Callable[..., Pipeline]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Load the declaration with parts of it changed."""
    monkeypatch.chdir(tmp_path)

    def declare(*changes: tuple[str, str]) -> Pipeline:
        text = PLANT
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        Path("plant.yaml").write_text(text)
        return load("plant.yaml")

    return declare


@pytest.fixture
def refused(plant: Declare) -> Callable[..., str]:
    """Return the whole message about a changed declaration."""

    def message(*changes: tuple[str, str]) -> str:
        with pytest.raises(ConfigurationError) as error:
            plant(*changes)
        return str(error.value)

    return message


Refused = Callable[..., str]
RANGE = '"readings_{01..03}"'


def test_a_range_of_names_is_as_many_plain_tables(plant: Declare) -> None:
    pipeline = plant()
    assert [(table.name, table.source) for table in pipeline.tables] == [
        ("readings_01", "PLANT.readings_01"),
        ("readings_02", "PLANT.readings_02"),
        ("readings_03", "PLANT.readings_03"),
        ("visits", "PLANT.VISITS"),
    ]
    assert all(
        (table.key, table.version, table.column_names) == (("id",), "id", ("id", "created", "tags"))
        for table in pipeline.tables[:3]
    )
    assert [mirror.current for mirror in pipeline.targets.mirrors] == [table.name for table in pipeline.tables]


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        ("[north, south]", ["north", "south"]),
        ("[north]", ["north"]),
        ('[north, "s_{1..2}", west]', ["north", "s_1", "s_2", "west"]),
        ('"t{8..11}"', ["t8", "t9", "t10", "t11"]),
        ('"t{08..11}x"', ["t08x", "t09x", "t10x", "t11x"]),
        ('"t{0..1}"', ["t0", "t1"]),
        ('"t{098..101}"', ["t098", "t099", "t100", "t101"]),
        ("alone", ["alone"]),
    ],
)
def test_names_stand_in_lists_and_ranges(plant: Declare, declared: str, names: list[str]) -> None:
    tables = plant((RANGE, declared)).tables[:-1]
    assert [(table.name, table.source) for table in tables] == [(name, f"PLANT.{name}") for name in names]


def test_tables_of_one_entry_need_sources_of_their_own(refused: Refused) -> None:
    assert refused(("PLANT.{name}", "PLANT.READINGS")) == (
        "plant.yaml:10: tables[0].source: found 'PLANT.READINGS', expected a source with {name}, which stands for the "
        "name of each table."
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "    source: 5\n",
            "plant.yaml:10: tables[0].source: found 5, expected a source table as its schema and name, such as "
            "PUBLIC.ORDERS.",
        ),
        (
            "",
            "plant.yaml:9: tables[0].source: found nothing, expected the schema and name in the source, such as "
            "PUBLIC.ORDERS; for several: PUBLIC.{name}.",
        ),
    ],
)
def test_a_source_that_is_no_text_is_refused_once_for_all_tables_of_an_entry(
    refused: Refused, source: str, message: str
) -> None:
    assert refused(("    source: PLANT.{name}\n", source)) == message


def test_a_name_comes_once_in_a_list(refused: Refused) -> None:
    assert refused((RANGE, "[north, South, NORTH]")) == (
        "plant.yaml:9: tables[0].name[2]: found 'NORTH', expected a name that no other table has. "
        "tables[0].name[0] in line 9 has it."
    )


def test_a_name_of_a_range_is_no_other_tables(refused: Refused) -> None:
    assert refused(("name: visits", "name: readings_02")) == (
        "plant.yaml:17: tables[1].name: found 'readings_02', expected a name that no other table has. "
        "tables[0].name in line 9 has it."
    )


def test_a_range_counts_upwards(refused: Refused) -> None:
    assert refused((RANGE, '"readings_{3..1}"')) == (
        "plant.yaml:9: tables[0].name: found 'readings_{3..1}', expected a range that counts upwards, such as {01..65}."
    )


def test_ranges_end_before_they_fill_the_memory(refused: Refused) -> None:
    assert refused((RANGE, '["a{1..1999}", "b{1..2}"]')) == (
        "plant.yaml:9: tables[0].name[1]: found 'b{1..2}', expected ranges of at most 2000 tables in a file."
    )


def test_a_list_has_a_name(refused: Refused) -> None:
    assert refused((RANGE, "[]")) == (
        "plant.yaml:9: tables[0].name: found an empty list, expected a name, or a list of at least one."
    )


def test_every_name_of_a_list_is_a_name(refused: Refused) -> None:
    name = "expected a name of letters, digits and underscores, beginning with a letter."
    assert refused((RANGE, '[north, 5, _own, "t{a..b}", [x]]')) == (
        f"plant.yaml:9: tables[0].name[1]: found 5, {name}\n"
        f"plant.yaml:9: tables[0].name[2]: found '_own', {name} A leading underscore marks what is txloom's own.\n"
        f"plant.yaml:9: tables[0].name[3]: found 't{{a..b}}', {name}\n"
        f"plant.yaml:9: tables[0].name[4]: found a list, {name}"
    )


def test_what_tables_share_is_told_once(refused: Refused) -> None:
    assert refused(("key: [id]", "key: [idd]"), ("created: timestamp", "created: timestmp"), ("version: id", "")) == (
        "plant.yaml:13: tables[0].columns.created: found 'timestmp', expected a type: long, int, double, float, "
        "boolean, string, date, timestamp, timestamptz, time, binary, uuid, json, decimal(p,s) or array<type>. "
        "Did you mean 'timestamp'?\n"
        "plant.yaml:15: tables[0].key[0]: found 'idd', expected a declared column of readings_01. Did you mean 'id'?"
    )


def test_an_editor_knows_lists_ranges_and_the_placeholder() -> None:
    declared = json.loads(schema_text())["$defs"]["Table"]["properties"]
    text, listed = declared["name"]["anyOf"]
    for name in ("orders", "t_{01..65}", "t_{01..65}_x"):
        assert re.search(text["pattern"], name) and re.search(listed["items"]["pattern"], name)
    for name in ("t_{a..b}", "{1..2}", "t_{1..2}{3..4}"):
        assert not re.search(text["pattern"], name)
    for source in ("PUBLIC.ORDERS", "PLANT.{name}", "{name}.ROWS", "DB.PLANT.T_{name}_V"):
        assert re.search(declared["source"]["pattern"], source)
    assert not re.search(declared["source"]["pattern"], "PLANT.{names}")
