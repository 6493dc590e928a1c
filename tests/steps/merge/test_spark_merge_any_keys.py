"""Spark merges keys of every type to the very tables and findings that this process does."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import examples
from lake import leave_to_spark
from steps.merge.keyed import LIKELY, Keyed, Scenario, scenarios, workload
from steps.merge.test_merge_any_keys import no_spark
from txloom.storage.delta import arrow_tables
from txloom.storage.targets import spark_fold


@pytest.mark.long
def test_spark_merges_keys_of_every_type_to_the_same_tables(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late truncates and late inserts that lack a column are among the changes."""
    tables = ["by_decimal38_10", "by_decimal_and_text", "by_string", "by_timestamp"]
    made = workload(tables, 4, releases=2)
    here, there = (Keyed(tmp_path / name, tables, ["by_decimal_and_text"]) for name in ("here", "there"))
    for lake in (here, there):
        lake.release(made.releases[0])
        lake.merge(no_spark)
        lake.release(made.releases[1])
    here.merge(no_spark)
    leave_to_spark(monkeypatch)
    there.merge(lambda: spark)
    assert there.content() == here.content()
    assert {table: there.rows(table) for table in tables} == {table: made.worlds[table].rows for table in tables}


@pytest.mark.parametrize(
    "mirrored",
    [pytest.param(True, id="mirrored"), pytest.param(False, id="documents alone", marks=pytest.mark.long)],
)
def test_spark_merges_documents_without_children(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirrored: bool
) -> None:
    made = workload(["by_string"], 7, releases=2)
    here, there = (
        Keyed(tmp_path / name, ["by_string"], relation="none", mirrored=mirrored) for name in ("here", "there")
    )
    for released in made.releases:
        here.release(released)
        here.merge(no_spark)
    leave_to_spark(monkeypatch)
    for released in made.releases:
        there.release(released)
        there.merge(lambda: spark)
    assert there.content() == here.content()
    assert len(there.content()["by_string_doc_current"]) == len(made.worlds["by_string"].rows) > 0


@dataclass(frozen=True)
class Case:
    """A workload, how it is cut and cleaned, and how small Spark's limits are."""

    scenario: Scenario
    relation: str
    literal_keys: int
    in_process_first: bool
    mirrored: bool


CASES = st.builds(
    Case,
    scenario=scenarios(3, orphan=LIKELY),
    relation=st.sampled_from(("many", "one", "none")),
    literal_keys=st.sampled_from((0, 3, spark_fold.LITERAL_KEYS)),
    in_process_first=st.booleans(),
    mirrored=st.booleans(),
)


@pytest.mark.long
@settings(max_examples=examples(2), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CASES)
def test_spark_merges_any_workload_to_the_same_tables(spark: Any, tmp_path_factory: Any, case: Case) -> None:
    """Late changes and truncates, dropped columns, moving and orphaned lines, cleaned histories, changes of keys.

    In some a row is written into the table by somebody else: no history names it.
    """
    scenario = case.scenario
    made, chance = (
        workload([scenario.table], scenario.seed, releases=scenario.releases, odds=scenario.odds),
        Random(scenario.seed),
    )
    folder, strange = tmp_path_factory.mktemp("engines"), made.worlds[scenario.table].new_key()
    here, there = (
        Keyed(folder / name, [scenario.table], relation=case.relation, mirrored=case.mirrored or scenario.is_cleaned)
        for name in ("here", "there")
    )
    for number, released in enumerate(made.releases):
        for lake in (here, there):
            if number and scenario.has_strange_row:
                lake.write_into(scenario.table, strange)
            lake.release(released)
        here.merge(no_spark)
        with pytest.MonkeyPatch.context() as limits:
            if number or not case.in_process_first:
                limits.setattr(arrow_tables, "LOCAL_ROWS", -1)
                limits.setattr(spark_fold, "LITERAL_KEYS", case.literal_keys)
            there.merge(lambda: spark)
        assert there.content() == here.content(), f"after release {number + 1}"
        if scenario.is_cleaned:
            horizon = chance.randrange(10, 130)
            assert there.clean(horizon) == here.clean(horizon)
