"""When a date's extracts are whole, and what is refused by name before a row is read."""

import os
import re
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError, SourceUnavailable, TxloomError
from txloom.storage.snapshots.extracts import day_of
from txloom.storage.sources.files import Inbox

DAY = date(2026, 11, 20)
DECLARED = """
name: club
source: {{format: snapshots, files: {{path: {inbox}, settle: 60s}}, snapshots: {{extracts: full}}}}
completeness: {{rule: single}}
tables:
  - {{name: players, source: CLUB.PLAYERS, key: [id], columns: {{id: long}}}}
  - {{name: trips, source: CLUB.TRIPS, key: [id], columns: {{id: long}}}}
targets: {{mirrors: ["*"]}}
"""


@pytest.fixture
def club(tmp_path: Path) -> Pipeline:
    (tmp_path / "club.yaml").write_text(DECLARED.format(inbox=tmp_path / "inbox"))
    return load(tmp_path / "club.yaml")


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of the date, older than settle unless it is said to be new."""

    def write(name: str, text: str = "", age: float = 3600) -> Path:
        path = tmp_path / "inbox" / "2026-11-20" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for entry in (path, path.parent, tmp_path / "inbox" / "2026-11-20"):
            os.utime(entry, (time.time() - age, time.time() - age))
        return path

    return write


def refused(club: Pipeline, kind: type[TxloomError]) -> str:
    with pytest.raises(kind) as error:
        day_of(club, DAY)
    return str(error.value)


def test_a_date_that_nobody_writes_any_more_is_whole(club: Pipeline, put: Callable[..., Path]) -> None:
    first, second = put("players/1.jsonl", '{"id": 1}\n'), put("players/2.csv.gz")
    day = day_of(club, DAY)
    assert {name: [file.path for file in files] for name, files in day.tables.items()} == {
        "players": [str(first), str(second)]
    }
    assert day.marked == frozenset()


def test_a_date_without_a_folder_is_said_to_be_missing(club: Pipeline, tmp_path: Path) -> None:
    assert refused(club, SourceUnavailable) == f"{tmp_path}/inbox/2026-11-20: there is no extract of this date"


def test_a_date_that_is_still_written_waits(club: Pipeline, put: Callable[..., Path]) -> None:
    folder = put("players/1.jsonl", age=20).parents[1]
    ago = re.sub(r"\b2\d seconds ago", "20 seconds ago", refused(club, SourceUnavailable))
    assert ago == (
        f"{folder}: it changed 20 seconds ago; the extract is whole once nothing in it has changed for 60 seconds, "
        "or at once with a file _SUCCESS in it"
    )


@pytest.mark.parametrize("markers", [["_SUCCESS"], ["players/_SUCCESS", "trips/_SUCCESS"]])
def test_a_marker_of_the_date_or_of_every_table_says_that_it_is_whole(
    club: Pipeline, put: Callable[..., Path], markers: list[str]
) -> None:
    put("players/1.jsonl", age=1)
    for marker in markers:
        put(marker, age=1)
    assert "players" in day_of(club, DAY).tables


def test_a_marker_of_one_table_says_nothing_of_the_others(club: Pipeline, put: Callable[..., Path]) -> None:
    put("players/1.jsonl", age=1)
    put("players/_SUCCESS", age=1)
    assert re.search(r"it changed \d seconds ago", refused(club, SourceUnavailable))


@pytest.mark.parametrize("name", ["players/2.jsonl.tmp", "players/2.csv.inprogress", "players/_temporary/0/1.parquet"])
def test_a_temporary_name_is_never_whole_however_old_it_is(club: Pipeline, put: Callable[..., Path], name: str) -> None:
    put("players/1.jsonl")
    left = put(name)
    left = left.parents[1] if "_temporary" in name else left
    assert refused(club, SourceUnavailable) == f"{left}: a temporary name; the extract is not whole until it is gone"


def test_checksums_that_lie_beside_files_do_no_harm(club: Pipeline, put: Callable[..., Path]) -> None:
    put("players/1.jsonl")
    put("players/.1.jsonl.crc")
    assert [Path(file.path).name for file in day_of(club, DAY).files] == ["1.jsonl"]


def test_a_link_that_leaves_the_source_is_not_followed(
    club: Pipeline, put: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "secrets").mkdir()
    link = put("players/1.jsonl").parents[1] / "trips"
    link.symlink_to(tmp_path / "secrets")
    assert refused(club, ConfigurationError) == f"{link}: a link that leaves the source's folder"


def test_a_folder_of_no_watched_table_is_named(club: Pipeline, put: Callable[..., Path]) -> None:
    folder = put("player/1.jsonl").parent
    assert refused(club, ConfigurationError) == f"{folder}: expected folders named like watched tables: players, trips"


def test_a_fingerprint_follows_names_and_content_alone(club: Pipeline, put: Callable[..., Path]) -> None:
    path = put("players/1.jsonl", '{"id": 1}\n')
    first = day_of(club, DAY).fingerprint()
    put("players/1.jsonl", '{"id": 1}\n', age=7200)
    assert day_of(club, DAY).fingerprint() == first
    put("players/1.jsonl", '{"id": 2}\n')
    changed = day_of(club, DAY).fingerprint()
    path.unlink()
    put("players/2.jsonl", '{"id": 2}\n')
    assert len({first, changed, day_of(club, DAY).fingerprint()}) == 3


def test_extracts_are_no_inbox_of_land_events(club: Pipeline) -> None:
    with pytest.raises(ConfigurationError) as error:
        Inbox.of(club)
    assert str(error.value) == "club: extracts are landed by jobs/diff_snapshot.py --date YYYY-MM-DD"
