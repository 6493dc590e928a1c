"""Columns and tables that extracts had before they were declared: no cut shows a table until it is complete."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from txloom import read
from txloom.config import load
from txloom.errors import BeforeHistory
from txloom.quality import findings as f
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.publish.publish import publish
from txloom.steps.settling.forecast import forecast
from txloom.steps.snapshots.diff_snapshot import diff_snapshot
from txloom.steps.snapshots.edited_tables import EditPending
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.checks import findings
from txloom.storage.declarations import records as r
from workloads.small_lake import SmallLake

HEAD = """
name: club
source: {{format: snapshots, files: {{path: {inbox}, settle: 0s}}, snapshots: {{extracts: {extracts}}}}}
completeness: {{rule: single}}
tables:
"""
TRIPS = "  - {name: trips, source: CLUB.TRIPS, key: [key], columns: {key: long, city: string}}\n"
WITH_AREA = TRIPS.replace("city: string", "city: string, area: string")
RIDES = "  - {name: rides, source: CLUB.RIDES, key: [key], columns: {key: long}}\n"
FIRST = [{"key": 1, "city": "a", "area": "x"}, {"key": 2, "city": "b", "area": "y"}]
SECOND = [{"key": 1, "city": "a", "area": "x"}, {"key": 2, "city": "c", "area": "y"}]


class Club:
    """A small lake of extracts."""

    def __init__(self, folder: Path, extracts: str) -> None:
        self.folder, self.extracts = folder, extracts
        (folder / "inbox").mkdir()
        self.lake = SmallLake(folder, self.declared(TRIPS))

    def declared(self, *tables: str) -> Any:
        head = HEAD.format(inbox=self.folder / "inbox", extracts=self.extracts)
        (self.folder / "club.yaml").write_text(head + "".join(tables) + 'targets: {mirrors: ["*"]}\n')
        return load(self.folder / "club.yaml")

    def declare(self, *tables: str) -> None:
        self.lake.pipeline = self.declared(*tables)

    def put(self, day: int, **tables: list[dict[str, Any]]) -> None:
        for name, rows in tables.items():
            folder = self.folder / "inbox" / f"2026-11-{day:02}" / name
            folder.mkdir(parents=True)
            (folder / "1.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def cycle(self, day: int, without: tuple[str, ...] = ()) -> None:
        self.land(day, without)
        self.show()

    def land(self, day: int, without: tuple[str, ...] = ()) -> None:
        """Land a date like the job: if an edit is pending, run buffer and merge before the date is compared."""
        self.lake.runs += 1
        with suppress(EditPending):
            self.lake.step(diff_snapshot, self.lake.session, day=date(2026, 11, day), without=without)
            return
        self.lake.buffer()
        self.lake.step(merge_current, self.lake.session)
        self.lake.step(diff_snapshot, self.lake.session, day=date(2026, 11, day), without=without)

    def show(self) -> None:
        """Buffer, merge and publish."""
        self.lake.buffer()
        self.lake.step(merge_current, self.lake.session)
        self.lake.step(publish, None)

    def load(self, csn: int, **tables: list[dict[str, Any]]) -> None:
        """Load tables as of a csn, and show them."""
        folder = self.folder / f"load-{csn}"
        for name, rows in tables.items():
            (folder / name).mkdir(parents=True)
            (folder / name / "1.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        self.lake.step(load_snapshot, self.lake.session, Snapshot(str(folder), csn, ahead=True))
        self.show()

    @property
    def cut(self) -> tuple[int, set[str]]:
        """The day that the newest cut shows, and the tables of that cut."""
        return self.newest["valid_through"] - 20261100, {*dict(self.newest["versions"])}

    @property
    def newest(self) -> dict[str, Any]:
        """The newest cut."""
        return max(self.lake.rows("cuts"), key=lambda row: row["cut_id"])

    def lacking(self) -> dict[str, str]:
        """Return by table the evidence of open findings that its history is not complete."""
        rows = findings.open_findings(self.lake.paths)
        return {row["table"]: row["evidence"] for row in rows if row["code"] == f.INCOMPLETE}

    def status(self, history: str, table: str) -> tuple[str, int]:
        newest = r.states(r.read(self.lake.paths))[history, table].newest
        return newest.status, newest.since_csn


Make = Callable[[str], Club]


@pytest.fixture
def club(tmp_path: Path) -> Make:
    def make(extracts: str) -> Club:
        made = Club(tmp_path, extracts)
        made.put(1, trips=FIRST)
        made.cycle(1)
        made.put(2, trips=SECOND)
        return made

    return make


def areas(club: Club) -> list[Any]:
    return sorted(row["area"] for row in club.lake.rows("trips"))


def test_the_next_full_date_brings_a_column_and_the_history_begins_there(club: Make) -> None:
    made = club("full")
    made.declare(WITH_AREA)
    assert forecast(made.lake.pipeline, made.lake.paths).incomplete == ("trips",)
    made.cycle(2)
    assert (made.cut, made.lacking(), areas(made)) == ((2, {"trips"}), {}, ["x", "y"])
    assert made.status("trips_changes", "trips") == (r.COMPLETE, 20261102)
    with pytest.raises(BeforeHistory, match="complete since csn 20261102"):
        read.as_of(made.lake.pipeline, "trips", csn=20261101, warehouse=made.lake.warehouse)
    assert {row["code"] for row in made.lake.rows("findings")} == {f.ADDED, f.INCOMPLETE}
    made.declare(WITH_AREA.replace("area: string", "zone: {type: string, source: area}"))
    made.put(3, trips=FIRST)
    made.cycle(3)
    assert made.status("trips_changes", "trips") == (r.COMPLETE, 20261102), "a rename does not change that"


def test_a_date_that_was_compared_before_the_edit_and_merged_after_it_lacks_the_column(club: Make) -> None:
    made = club("full")
    made.land(2)
    made.declare(WITH_AREA)
    made.show()
    text = "of 2 transactions (csn 20261101 to 20261102), tables and columns that were not declared yet were not kept"
    assert made.cut == (2, set())
    assert text in made.lacking()["trips"]
    made.put(3, trips=SECOND)
    made.cycle(3)
    assert (made.cut, made.lacking(), areas(made)) == ((3, {"trips"}), {}, ["x", "y"])


@pytest.mark.parametrize("extracts", ["full", "partial"])
def test_the_hint_says_whether_the_next_date_or_a_snapshot_completes_the_table(club: Make, extracts: str) -> None:
    made = club(extracts)
    made.land(2)
    made.declare(WITH_AREA)
    made.show()
    (hint,) = [row["hint"] for row in findings.open_findings(made.lake.paths) if row["code"] == f.INCOMPLETE]
    load = "oad a snapshot of trips as of csn 20261102 or a later one: jobs/load_snapshot.py --pipeline club "
    load += "--table trips --path FOLDER --csn CSN, or the DAG club_load."
    if extracts == "full":
        date = "Let the next date that has trips be compared: it completes the table, and closes this finding."
        refused = "After that, read.as_of refuses every csn below that of the date or the snapshot."
        assert hint == f"{date} To complete it earlier, l{load} {refused}"
    else:
        assert hint.startswith(f"L{load} If no earlier date had the table, its first extract also completes it. ")
        assert hint.endswith("and read.as_of refuses every csn below that of the snapshot.")


def test_a_partial_date_does_not_complete_a_column_and_a_load_does(club: Make) -> None:
    made = club("partial")
    made.declare(WITH_AREA)
    made.cycle(2)
    assert "trips" in made.lacking()
    made.put(3, trips=SECOND[:1])
    made.cycle(3)
    assert made.cut == (3, set())
    made.load(20261103, trips=SECOND)
    assert (made.cut, areas(made)) == ((3, {"trips"}), ["x", "y"])


def test_a_partial_date_stays_partial_once_extracts_are_declared_full(club: Make) -> None:
    made = club("partial")
    made.declare(WITH_AREA)
    made.put(3, trips=SECOND[:1])
    made.cycle(3)
    made.extracts = "full"
    made.declare(WITH_AREA)
    made.show()
    assert (made.cut, *made.lacking()) == ((3, set()), "trips")
    made.put(4, trips=SECOND)
    made.cycle(4)
    assert (made.cut, made.lacking(), areas(made)) == ((4, {"trips"}), {}, ["x", "y"])


def test_a_full_date_completes_a_column_even_if_extracts_are_declared_partial_before_its_merge(club: Make) -> None:
    made = club("full")
    made.land(2)
    made.declare(WITH_AREA)
    made.show()
    made.put(3, trips=SECOND)
    made.land(3)
    made.extracts = "partial"
    made.declare(WITH_AREA)
    made.show()
    assert (made.cut, made.lacking(), areas(made)) == ((3, {"trips"}), {}, ["x", "y"])


@pytest.mark.parametrize("extracts", ["full", "partial"])
def test_a_column_that_no_extract_had_lacks_nothing(club: Make, extracts: str) -> None:
    made = club(extracts)
    made.declare(TRIPS.replace("city: string", "city: string, note: string"))
    assert forecast(made.lake.pipeline, made.lake.paths).incomplete == ()
    made.cycle(2)
    assert (made.cut, made.lacking(), made.status("trips_changes", "trips")) == ((2, {"trips"}), {}, (r.COMPLETE, 0))


def test_a_new_table_is_shown_from_its_first_extract_on(club: Make) -> None:
    made = club("full")
    made.declare(TRIPS, RIDES)
    made.cycle(2, without=("rides",))
    assert (made.cut, [*made.lacking()]) == ((2, {"trips"}), ["rides"])
    made.put(3, trips=SECOND, rides=[{"key": 7}])
    made.cycle(3)
    assert (made.cut, made.lacking()) == ((3, {"trips", "rides"}), {})


@pytest.mark.parametrize("extracts", ["full", "partial"])
def test_a_table_that_was_left_out_for_a_date_lacks_it(club: Make, extracts: str) -> None:
    made = club(extracts)
    made.declare(TRIPS, RIDES)
    made.put(2, rides=[{"key": 7}])
    made.cycle(2)
    assert made.cut == (2, {"trips", "rides"})
    made.declare(TRIPS)
    made.put(3, trips=FIRST)
    made.cycle(3)
    made.declare(TRIPS, RIDES)
    made.put(4, trips=FIRST, rides=[{"key": 9}])
    made.cycle(4)
    assert made.cut == (4, {"trips", "rides"} if extracts == "full" else {"trips"})
    assert [*made.lacking()] == ([] if extracts == "full" else ["rides"])


def test_a_new_table_is_complete_from_its_first_partial_extract_on(club: Make) -> None:
    """What the source had of it before that extract is not known."""
    made = club("partial")
    made.declare(TRIPS, RIDES)
    made.cycle(2)
    assert (made.cut, [*made.lacking()]) == ((2, {"trips"}), ["rides"])
    made.put(3, rides=[{"key": 7}])
    made.cycle(3)
    assert (made.cut, made.lacking()) == ((3, {"trips", "rides"}), {})
    assert made.status("rides_changes", "rides") == (r.COMPLETE, 20261103)
    with pytest.raises(BeforeHistory):
        read.as_of(made.lake.pipeline, "rides", csn=20261102, warehouse=made.lake.warehouse)
    made.put(4, rides=[{"key": 8}])
    made.cycle(4)
    assert (made.cut, made.lacking()) == ((4, {"trips", "rides"}), {})


def test_a_partial_extract_after_a_load_is_not_the_first(club: Make) -> None:
    made = club("partial")
    made.declare(TRIPS, RIDES)
    made.cycle(2)
    made.load(20261102, rides=[{"key": 7}])
    assert (made.cut, made.lacking()) == ((2, {"trips", "rides"}), {})
    made.declare(TRIPS)
    made.put(3, trips=SECOND)
    made.cycle(3)
    made.declare(TRIPS, RIDES)
    made.put(4, rides=[{"key": 8}])
    made.cycle(4)
    assert (made.cut, [*made.lacking()]) == ((4, {"trips"}), ["rides"])


TOWN = TRIPS.replace("city: string", "city: {type: string, source: TOWN, source_aliases: [CITY]}")
RENAMED = [{"key": 1, "town": "a", "area": "x"}, {"key": 2, "town": "d", "area": "y"}]


def cities(made: Club) -> list[Any]:
    version = dict(made.newest["versions"])["trips"]
    return [row["city"] for row in sorted(made.lake.rows("trips", version), key=lambda row: row["key"])]


@pytest.mark.parametrize("extracts", ["full", "partial"])
@pytest.mark.parametrize("day", [2, 3])
def test_a_column_that_extracts_rename_keeps_its_values(club: Make, extracts: str, day: int) -> None:
    """The declaration follows one date before the first extract with the new name, or for that date."""
    made = club(extracts)
    if day == 2:
        made.declare(TOWN)
    made.cycle(2)
    made.declare(TOWN)
    made.put(3, trips=RENAMED)
    made.cycle(3)
    assert (made.cut, made.lacking(), cities(made)) == ((3, {"trips"}), {}, ["a", "d"])
    made.put(4, trips=RENAMED[1:])
    made.cycle(4)
    assert cities(made) == (["d"] if extracts == "full" else ["a", "d"])


@pytest.mark.parametrize("extracts", ["full", "partial"])
def test_a_column_that_extracts_rename_lacks_dates_until_the_declaration_follows(club: Make, extracts: str) -> None:
    made = club(extracts)
    made.cycle(2)
    made.put(3, trips=RENAMED)
    made.cycle(3)
    made.declare(TOWN)
    made.put(4, trips=RENAMED)
    made.cycle(4)
    if extracts == "partial":
        assert [*made.lacking()] == ["trips"]
        made.load(20261104, trips=RENAMED)
    assert (made.cut, made.lacking(), cities(made)) == ((4, {"trips"}), {}, ["a", "d"])
