"""The job of a date whose declaration was edited: the current tables follow the edit before they are compared."""

from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from lake import STEPS
from steps.snapshots.test_diff_snapshot import TRIPS, Club, job, trips
from txloom.errors import BeyondValidThrough, TablesFailed
from txloom.steps.buffer import buffer_transactions
from txloom.steps.landing import redecode
from txloom.steps.merge import merge_current
from txloom.steps.snapshots import diff_snapshot, edited_tables
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.paths import TablePaths

NARROW = TRIPS.replace("key: long", "key: int")
EDITS = {
    "wider type": TRIPS,
    "other key": NARROW.replace("key: [key]", "key: [key, city]"),
    "other source": NARROW.replace("CLUB.TRIPS", "CLUB.OTHERS"),
}
FIRST = [(1, "Linz"), (2, "Oaxaca"), (4, "Wien")]
SECOND = [(1, "Graz"), (3, "Carmel"), (4, "Wien")]


@pytest.fixture
def club(spark: Any, tmp_path: Path) -> Club:
    """Return a club whose first date is published, and whose second one has come."""
    made = Club(spark, tmp_path, NARROW)
    made.put(1, "trips", trips(*FIRST))
    made.cycle(1)
    made.put(2, "trips", trips(*SECOND))
    return made


def land(club: Club, day: int) -> dict[str, Any]:
    """Do what the job does, in a run whose later tasks have the same id."""
    step = step_of(club.pipeline, club.warehouse, f"run-{club.runs + 1}", lambda: club.spark)
    return diff_snapshot.diff_snapshot_after_edits(step, date(2026, 11, day))


def shown_by_cut(club: Club) -> list[tuple[Any, ...]]:
    cut = club.query("cuts", "select * from t order by cut_id")[-1]
    rows = club.rows("trips", dict(cut["versions"])["trips"])
    return [(cut["valid_through"],), *sorted((row["key"], row["city"]) for row in rows)]


def assert_all_is_balanced(club: Club) -> None:
    assert all(row["balanced"] for row in club.query("ledger", "select balanced from t where step = 'balance'"))
    twice = "select step, batch from t where batch > 0 group by all having count(*) > 1"
    assert club.query("ledger", twice) == []


@pytest.mark.stream
@pytest.mark.parametrize("edit", EDITS)
def test_a_date_after_an_edit_needs_no_hand(club: Club, edit: str) -> None:
    club.pipeline = club.declared(club.folder, EDITS[edit])
    assert land(club, 2)["csn"] == 20261102
    club.run(STEPS[1:])
    assert shown_by_cut(club) == [(20261102,), *SECOND]
    club.put(3, "trips", trips(*FIRST))
    assert land(club, 3)["csn"] == 20261103
    club.run(STEPS[1:])
    assert shown_by_cut(club) == [(20261103,), *FIRST]
    assert_all_is_balanced(club)


def die(*_: object, **__: object) -> None:
    raise TablesFailed("died")


DEATHS = [
    (diff_snapshot, "earlier_names"),
    (redecode, "finish_redecoding"),
    (buffer_transactions, "declare"),
    (merge_current, "follow_declaration"),
    (merge_current, "planned"),
    (merge_current, "stamp_tables"),
]


@pytest.mark.parametrize("edit", EDITS)
def test_a_retry_goes_on_where_the_job_died(club: Club, monkeypatch: pytest.MonkeyPatch, edit: str) -> None:
    club.pipeline = club.declared(club.folder, EDITS[edit])
    # A table with another source starts again without its earlier rows.
    assert land_after_deaths(club, monkeypatch)["unchanged"] == (0 if edit == "other source" else 1)
    assert land(club, 2)["skipped"] == 1
    club.run(STEPS[1:])
    assert shown_by_cut(club) == [(20261102,), *SECOND]
    assert_all_is_balanced(club)


def land_after_deaths(club: Club, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let the job die at each place that it reaches, one attempt after the other, until it lands its date."""
    for room, name in DEATHS:
        with monkeypatch.context() as killed, suppress(TablesFailed):
            killed.setattr(room, name, die)
            return land(club, 2)
    return land(club, 2)


def test_a_second_refusal_is_raised(club: Club, monkeypatch: pytest.MonkeyPatch) -> None:
    club.pipeline = club.declared(club.folder, EDITS["other key"])
    monkeypatch.setattr(merge_current, "merge_current", lambda _: {})
    with pytest.raises(edited_tables.EditPending, match="current rows of trips are still computed by the earlier one"):
        land(club, 2)


def test_only_an_edit_makes_the_job_run_other_steps(spark: Any, tmp_path: Path) -> None:
    club = Club(spark, tmp_path, TRIPS)
    club.put(1, "trips", trips(*FIRST))
    club.put(2, "trips", trips(*SECOND))
    land(club, 1)
    with pytest.raises(BeyondValidThrough, match="landing 1 is not released yet"):
        land(club, 2)
    assert buffer_state(TablePaths(club.warehouse, "club")) is None


@pytest.mark.long
@pytest.mark.stream
def test_the_job_killed_after_writes_lands_a_date_once(club: Club) -> None:
    club.pipeline = club.declared(club.folder, EDITS["other key"])
    for deadly in (1, 3, 6):
        assert not [line for line in job(club, 2, deadly) if line.startswith("txloom")]
    assert list(job(club, 2))[-1].startswith("txloom diff_snapshot: pipeline=club run_id=job-2 date=2026-11-02")
    club.run(STEPS[1:])
    assert shown_by_cut(club) == [(20261102,), *SECOND]
    assert_all_is_balanced(club)
