"""Maintenance joins the files of the buffer's plan, and the buffer goes on behind it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from called import step_of
from lake import Lake, arrivals, expected_state, new_lake, shown
from oracle import capture, comparison
from oracle.completeness import progress
from oracle.state import Source
from txloom.steps.maintenance.maintain_tables import maintain_tables
from txloom.storage.buffer import batch_plan, checkpoints

pytestmark = [pytest.mark.stream, pytest.mark.long]


def plan_of(lake: Lake) -> DeltaTable:
    return DeltaTable(batch_plan.plan_of(checkpoints.checkpoint(lake.warehouse, lake.pipeline.name, checkpoints.FIRST)))


def test_the_buffer_goes_on_behind_a_plan_whose_files_were_joined(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = new_lake(spark, tmp_path, monkeypatch)
    settings = made.pipeline.maintenance
    eager = settings.model_copy(
        update={
            "optimize": settings.optimize.model_copy(update={"min_small_files": 2}),
            "vacuum": settings.vacuum.model_copy(update={"retain": timedelta(0)}),
        }
    )
    lake = Lake(spark, made.folder, made.pipeline.model_copy(update={"maintenance": eager}))
    for arrival in arrivals()[:2]:
        lake.deliver(arrival)
        lake.run()
    assert len(plan_of(lake).file_uris()) == 2
    for task in ("optimize", "vacuum"):
        maintain_tables(step_of(lake.pipeline, lake.warehouse, "m1", spark), task=task)
    assert len(plan_of(lake).file_uris()) == 1
    assert len(list(Path(plan_of(lake).table_uri.removeprefix("file://")).glob("*.parquet"))) == 1
    for arrival in arrivals()[2:4]:
        lake.deliver(arrival)
        lake.run()
    csn = list(progress(arrivals()))[3].valid_through
    assert csn is not None
    differences = comparison.differences(expected_state(Source(capture.read(capture.arrivals())), csn), shown(lake))
    assert not differences, comparison.report(differences)
