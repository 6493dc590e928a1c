"""Versions that fall, followed along a mirror's history: in commit order, one life of a row at a time."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from released import Change, Released
from txloom.config import names
from txloom.steps.publish.check_expectations import check_expectations
from txloom.storage import system_tables
from txloom.storage.checks import results
from txloom.storage.delta import small_tables

DECLARED = """expectations:
  - {kind: version_regressions, id: falls, table: readings, severity: warn, sentence: Versions grow., hint: Look.}
"""


def insert(key: int, version: int | None) -> Change:
    return "I", {}, {"id": key, "v": version}


def update(key: int, version: int, was: int | None = None) -> Change:
    return "U", {"id": key if was is None else was}, {"id": key, "v": version}


def sparse(key: int) -> Change:
    return "U", {"id": key}, {"id": key}


def delete(key: int) -> Change:
    return "D", {"id": key}, {}


TRUNCATE: Change = ("T", {}, {})


def fallen(plant: Released) -> list[tuple[int, int, int]]:
    """Check; return key, version and the version that it was of each row that fails."""
    plant.runs = getattr(plant, "runs", 0) + 1  # type: ignore[attr-defined]
    run = f"r{plant.runs}"  # type: ignore[attr-defined]
    check_expectations(step_of(plant.pipeline, plant.folder, run))
    rows = json.loads(results.of_run(plant.paths, run)["falls"]["sample"])
    return [(row["id"], row["version"], row["highest"]) for row in rows]


@pytest.fixture
def plant(tmp_path: Path) -> Released:
    return Released(tmp_path, "id: long, v: long", key="[id], version: v", more=DECLARED)


@pytest.mark.parametrize(
    ("transactions", "regressed"),
    [
        ([[insert(1, 1)], [update(1, 2)], [update(1, 3)]], []),
        ([[insert(1, 1), insert(2, 9)], [update(1, 3)], [update(1, 2), update(2, 10)]], [(1, 2, 3)]),
        ([[insert(1, 1), update(1, 3), update(1, 2)]], [(1, 2, 3)]),
        ([[insert(1, 5)], [update(1, 4)], [update(1, 6)]], []),
        ([[insert(1, 5)], [update(1, 4)], [delete(1)]], []),
        ([[insert(1, 5)], [delete(1), insert(1, 1)]], []),
        ([[insert(1, 5)], [insert(1, 1)]], []),
        ([[insert(1, 5)], [TRUNCATE, insert(1, 1)], [update(1, 2)]], []),
        ([[insert(1, 5)], [TRUNCATE], [insert(1, 3)], [update(1, 2)]], [(1, 2, 3)]),
        ([[insert(1, 5), insert(2, 1)], [update(3, 6, was=1)], [update(1, 2, was=2)]], []),
        ([[insert(1, 5)], [update(2, 4, was=1)]], []),
        ([[insert(1, 5)], [sparse(1)]], []),
        ([[insert(1, 5)], [sparse(1)], [update(1, 4)]], [(1, 4, 5)]),
        ([[insert(1, None)], [update(1, 1)]], []),
    ],
)
def test_a_row_fails_whose_newest_version_is_below_one_that_it_had(
    plant: Released, transactions: Sequence[Sequence[Change]], regressed: list[tuple[int, int, int]]
) -> None:
    for csn, changes in enumerate(transactions, 10):
        plant.release(csn, changes)
    assert fallen(plant) == regressed


@pytest.mark.parametrize("kind", ["double", "float"])
def test_nan_is_no_version(tmp_path: Path, kind: str) -> None:
    plant = Released(tmp_path, f"id: long, v: {kind}", key="[id], version: v", more=f"judge: always\n{DECLARED}")
    changes = [("I", {}, {"id": key, "v": version}) for key, version in ((1, 2.0), (2, math.nan), (3, 5.0), (4, 1.0))]
    plant.release(10, changes)
    assert fallen(plant) == []
    later = ((1, math.nan), (2, 1.0), (3, 4.0), (4, math.nan))
    plant.release(20, [("U", {"id": key}, {"id": key, "v": version}) for key, version in later])
    plant.release(30, [("U", {"id": 4}, {"id": 4, "v": 0.5})])
    assert fallen(plant) == [(3, 4.0, 5.0), (4, 0.5, 1.0)]


def test_a_late_transaction_below_is_no_fall(plant: Released) -> None:
    plant.release(10, [insert(1, 1)])
    plant.release(30, [update(1, 3)])
    plant.release(20, [update(1, 2)])
    assert fallen(plant) == []


def cut(plant: Released, **more: Any) -> None:
    row = {"cut_id": 1, "valid_through": 30, "release": plant.releases, "published_at": datetime.now(UTC)}
    small_tables.append(
        plant.paths.table(names.CUTS), [row | {"versions": {}, "gaps": [], "amends": []} | more], system_tables.CUTS
    )


def test_only_rows_that_changed_since_the_last_cut_are_followed_and_with_all_that_they_were(plant: Released) -> None:
    plant.release(10, [insert(1, 5), insert(2, 5)])
    plant.release(20, [update(1, 4)])
    cut(plant)
    assert fallen(plant) == []
    plant.release(30, [update(2, 3)])
    assert fallen(plant) == [(2, 3, 5)]
