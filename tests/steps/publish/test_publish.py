"""Tables that vanish, or are written anew: no cut leaves one out, no cut shows another table's version as its own."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from released import BEGAN, Released
from topics import no_session
from txloom import read
from txloom.config import names
from txloom.errors import CutReplaced, ExpectationFailed, TablesFailed
from txloom.steps.landing.pending_work import reasons
from txloom.steps.publish.check_expectations import check_expectations
from txloom.steps.publish.publish import publish
from txloom.storage import system_tables
from txloom.storage.checks import results
from txloom.storage.delta import small_tables
from txloom.storage.views.pipeline.overview import health

EMPTY = """expectations:
  - {kind: invariant, id: positive, sql: "select * from readings where id < 0", severity: block,
     sentence: Ids are positive., hint: Ask the plant.}
"""


@pytest.fixture
def lake(tmp_path: Path) -> Released:
    """Return a pipeline with two published cuts."""
    made = Released(tmp_path, "id: long", more=EMPTY)
    for csn in (1, 2):
        cycle(made, csn)
    return made


def cycle(lake: Released, csn: int) -> dict[str, Any]:
    lake.release(csn, [("I", {}, {"id": csn})])
    return merged_and_published(lake)


def merged_and_published(lake: Released) -> dict[str, Any]:
    lake.merge(no_session)
    return publish(step_of(lake.pipeline, lake.folder, f"run-{lake.releases}"))


def table(lake: Released) -> Path:
    return Path(lake.paths.table("readings"))


def shown(lake: Released, cut_id: int) -> list[int]:
    with read.held(lake.pipeline, reader="test", cut_id=cut_id, warehouse=str(lake.folder)) as cut:
        rows = read.at_version(lake.pipeline, "readings", cut.versions["readings"], cut=cut, warehouse=str(lake.folder))
    return sorted(rows.column("id").to_pylist())


def test_a_cut_shows_what_it_was_published_with(lake: Released) -> None:
    assert (shown(lake, 1), shown(lake, 2)) == ([1], [1, 2])


def test_publish_says_what_a_reader_of_its_event_needs(tmp_path: Path) -> None:
    lake = Released(tmp_path, "id: long")
    assert cycle(lake, 5) == {
        "published": 1,
        "cut_id": 1,
        "csn_after": 0,
        "valid_through": 5,
        "committed_at": (BEGAN + timedelta(days=5)).isoformat(),
        "gaps": 0,
        "amends": 0,
        "versions": {"readings": 1},
    }
    second = cycle(lake, 6)
    assert (second["csn_after"], second["valid_through"], second["amends"]) == (5, 6, 0)
    late = cycle(lake, 4)
    assert (late["cut_id"], late["valid_through"], late["amends"]) == (3, 6, 2)


def test_a_source_without_times_of_commits_has_none_in_the_event(tmp_path: Path) -> None:
    lake = Released(tmp_path, "id: long")
    lake.release(1, [("I", {}, {"id": 1})])
    finished = lake.paths.table(names.TRANSACTIONS)
    rows = [row | {"committed_at": None} for row in small_tables.query(finished, "select * from t")]
    small_tables.replace(finished, rows, system_tables.TRANSACTIONS, {})
    assert "committed_at" not in merged_and_published(lake)


def test_a_table_that_vanished_before_publish_is_not_left_out_of_a_cut(lake: Released) -> None:
    lake.release(3, [("I", {}, {"id": 3})])
    lake.merge(no_session)
    shutil.rmtree(table(lake))
    with pytest.raises(TablesFailed) as refused:
        publish(step_of(lake.pipeline, lake.folder, "run-3"))
    assert str(refused.value) == (
        f"pipeline plant: current table readings is gone from {lake.folder}/plant: nothing was published, because a "
        "cut without it would show what the source never had; the next cycle's merge_current writes it anew out of its "
        "history"
    )
    assert merged_and_published(lake)["cut_id"] == 3
    assert shown(lake, 3) == [1, 2, 3]


def test_a_vanished_table_fails_its_expectations_and_is_told_and_gives_a_cycle_work(lake: Released) -> None:
    shutil.rmtree(table(lake))
    with pytest.raises(ExpectationFailed, match="positive: table readings is gone: the newest cut has it; the next"):
        check_expectations(step_of(lake.pipeline, lake.folder, "looking"))
    assert results.of_run(lake.paths, "looking")["positive"]["success"] is False
    health_shown = health(lake.pipeline, str(lake.folder))
    assert ("red", "table gone", "1 table of the newest cut is gone.") in [
        (health_shown.color, each.kind, each.what) for each in health_shown.reasons
    ]
    assert "current table readings is gone" in reasons(lake.pipeline, str(lake.folder), 0)


def test_a_table_that_was_written_anew_is_not_shown_as_the_one_of_an_older_cut(lake: Released) -> None:
    shutil.rmtree(table(lake))
    assert merged_and_published(lake)["published"] == 1, "its versions are others now, whatever their numbers"
    assert shown(lake, 3) == [1, 2]
    for ask in (lambda: shown(lake, 1), lambda: read.versions(lake.pipeline, cut_id=1, warehouse=str(lake.folder))):
        with pytest.raises(
            CutReplaced, match=r"cut 1 of pipeline plant: table readings was written anew since, its ver"
        ):
            ask()
    with pytest.raises(
        CutReplaced, match=r"it has no version \d+ any more; read a newer cut, or this state out of hist"
    ):
        shown(lake, 2)


def test_a_table_that_was_written_anew_with_the_same_numbers_of_versions_is_published(tmp_path: Path) -> None:
    lake = Released(tmp_path, "id: long", more=EMPTY)
    cycle(lake, 1)
    shutil.rmtree(table(lake))
    assert merged_and_published(lake)["cut_id"] == 2
    first, second = small_tables.query(lake.paths.table("cuts"), "select versions, table_ids from t order by cut_id")
    assert first["versions"] == second["versions"] and first["table_ids"] != second["table_ids"]
    cuts = small_tables.query(lake.paths.table("cuts"), "select * from t where cut_id = 1")
    shutil.rmtree(lake.paths.table("cuts"))
    small_tables.append(lake.paths.table("cuts"), [cuts[0] | {"marks": None}], system_tables.CUTS)
    with pytest.raises(CutReplaced, match=r"readings was written anew since, its version \d+ is of another table"):
        shown(lake, 1)


def test_a_table_that_a_copy_replaced_goes_on_with_other_versions_of_the_same_numbers(lake: Released) -> None:
    shutil.copytree(table(lake), lake.folder / "copy")
    cycle(lake, 3)
    cycle(lake, 4)
    shutil.rmtree(table(lake))
    shutil.copytree(lake.folder / "copy", table(lake))
    merged_and_published(lake)
    assert (shown(lake, 1), shown(lake, 2)) == ([1], [1, 2])
    with pytest.raises(CutReplaced, match="cut 3 of pipeline plant"):
        shown(lake, 3)


def test_a_cut_of_a_version_before_is_read_where_nothing_contradicts_it(lake: Released) -> None:
    cut = small_tables.query(
        lake.paths.table("cuts"), "select cut_id, valid_through, versions from t where cut_id = 1"
    )[0]
    shutil.rmtree(lake.paths.table("cuts"))
    small_tables.append(lake.paths.table("cuts"), [cut], system_tables.CUTS)
    assert shown(lake, 1) == [1]
