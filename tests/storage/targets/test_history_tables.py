"""A history that is gone is missed, and none is made in its place."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from released import Released
from txloom.errors import HistoryLost
from txloom.storage.targets import history_tables


def no_spark() -> Any:
    raise AssertionError("a small merge opened a Spark session")


@pytest.fixture
def plant(tmp_path: Path) -> Released:
    made = Released(tmp_path, "id: long, a: long")
    made.release(10, [("I", {}, {"id": 1, "a": 1})])
    return made


def test_a_history_that_is_gone_is_not_made_anew_while_readers_see_what_was_made_of_it(plant: Released) -> None:
    plant.merge(no_spark)
    shutil.rmtree(plant.paths.table("readings_changes"))
    with pytest.raises(HistoryLost) as lost:
        history_tables.create(plant.pipeline, plant.paths)
    assert str(lost.value) == (
        "pipeline plant: readings_changes: the history is gone, though its current table is there: "
        "bring its folder back, or rebuild it with a backfill over everything (no range)"
    )
    assert not DeltaTable.is_deltatable(plant.paths.table("readings_changes"))


def test_a_table_of_which_nothing_was_merged_gets_its_history(plant: Released) -> None:
    shutil.rmtree(plant.paths.table("readings_changes"))
    history_tables.create(plant.pipeline, plant.paths)
    assert history_tables.lost(plant.pipeline, plant.paths) == []
    assert DeltaTable(plant.paths.table("readings_changes")).version() == 0
