"""Whoever reads a cut may hold it, and vacuum knows them by name."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from released import Released
from txloom import read
from txloom.errors import ConfigurationError
from txloom.storage.delta import small_tables
from txloom.storage.publishing import reader_holds
from txloom.storage.system_tables import CUTS

NOW = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Released:
    """Return a pipeline with two published cuts of one table."""
    made = Released(tmp_path, "id: long", more="maintenance: {vacuum: {retain: 1h}}")
    for n in (1, 2):
        write_deltalake(made.paths.table("readings"), pa.table({"id": [n]}), mode="append")
        row = {"cut_id": n, "valid_through": 10 * n, "versions": [("readings", n - 1)], "gaps": [], "amends": []}
        small_tables.append(made.paths.table("cuts"), [row], CUTS)
    return made


def needs(lake: Released, at: datetime | None = None) -> list[tuple[str, dict[str, int]]]:
    held_versions = reader_holds.needs(lake.paths, at or datetime.now(UTC))
    return [(need.who, dict(need.versions)) for need in held_versions]


def test_the_newest_cut_is_needed_by_everybody(lake: Released) -> None:
    assert needs(lake) == [("cut 2, the newest", {"readings": 1})]


def test_a_reader_holds_a_cut_until_it_is_through(lake: Released) -> None:
    with read.held(lake.pipeline, reader="export", cut_id=1, hours=2, warehouse=str(lake.folder)) as cut:
        assert (cut.cut_id, cut.valid_through, dict(cut.versions)) == (1, 10, {"readings": 0})
        (_, (who, versions)) = needs(lake)
        now = datetime.now(UTC)
        since, until = (f"{moment:%Y-%m-%d %H}" for moment in (now, now + timedelta(hours=2)))
        assert who.startswith(f"reader export, which holds cut 1 since {since}")
        assert f" until {until}" in who
        assert versions == {"readings": 0}
    assert len(needs(lake)) == 1


def test_a_hold_ends_by_itself(lake: Released) -> None:
    cut = reader_holds.published(lake.paths, 1)
    assert cut is not None
    reader_holds.hold(lake.paths, "export", cut, NOW)
    assert len(needs(lake, NOW - timedelta(minutes=1))) == 2
    assert len(needs(lake, NOW)) == 1


def test_who_holds_a_cut_again_is_named_since_the_first_time(lake: Released) -> None:
    cut = reader_holds.published(lake.paths, 1)
    assert cut is not None
    for hours in (1, 3):
        reader_holds.hold(lake.paths, "export", cut, NOW + timedelta(hours=hours))
    assert [who.split(" until ")[1] for who, _ in needs(lake, NOW)[1:]] == ["2026-11-20 06:00 UTC at most"]


@pytest.mark.parametrize(
    ("reader", "cut_id", "message"),
    [
        ("export", 7, "pipeline plant has published no cut 7"),
        (" ", 1, "a reader needs a name: vacuum says who holds a cut"),
    ],
)
def test_a_hold_that_would_hold_nothing_is_refused(lake: Released, reader: str, cut_id: int, message: str) -> None:
    with (
        pytest.raises(ConfigurationError, match=f"^{message}$"),
        read.held(lake.pipeline, reader=reader, cut_id=cut_id, warehouse=str(lake.folder)),
    ):
        pass


def test_a_cut_that_vacuum_may_take_apart_is_not_held(lake: Released, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_holds, "outlived", lambda path, versions, retain: versions & {0})
    with (
        pytest.raises(ConfigurationError, match=r"^cut 1 is older than vacuum keeps \(readings\): hold a newer one$"),
        read.held(lake.pipeline, reader="export", cut_id=1, warehouse=str(lake.folder)),
    ):
        pass
    assert len(needs(lake)) == 1
    with read.held(lake.pipeline, reader="export", warehouse=str(lake.folder)) as cut:
        assert cut.cut_id == 2


def test_versions_that_were_replaced_long_enough_ago_are_outlived_and_the_newest_never(lake: Released) -> None:
    path = lake.paths.table("readings")
    assert reader_holds.outlived(path, {0, 1}, timedelta(0)) == {0}
    assert reader_holds.outlived(path, {0, 1}, timedelta(hours=1)) == set()
    assert reader_holds.outlived("/nowhere", set(), timedelta(0)) == set(), "nobody needs a version: none is looked for"
