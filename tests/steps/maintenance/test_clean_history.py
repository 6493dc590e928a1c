"""History is cleaned by policy: fewer rows, the same states from the horizon on, whatever comes late or breaks off."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from called import step_of
from drawn import examples
from released import BEGAN, Released
from steps.merge.small_pieces import cut_small, note_folders
from txloom import read
from txloom.errors import BeforeHistory
from txloom.steps.maintenance.maintain_tables import maintain_tables
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.maintenance import history_cleaning, history_retention
from txloom.storage.paths import TablePaths
from txloom.storage.rewriting.table_files import TableFiles
from txloom.storage.runs.ledger import Entry
from txloom.storage.system_tables import CUTS

COLUMNS = "id: long, name: string, note: string"
KEEP = "maintenance: {history: {keep: 400d}}"
DAYS = (datetime.now(UTC) - BEGAN).days
OLD = DAYS - 400
"""The csn of the newest transaction that is old enough: each took a day."""


def nothing() -> Any:
    raise AssertionError("a small table opened a Spark session")


def cut(lake: Released, cut_id: int, valid_through: int, days_ago: float, **versions: int) -> None:
    at = datetime.now(UTC) - timedelta(days=days_ago)
    row = {"cut_id": cut_id, "valid_through": valid_through, "published_at": at, "gaps": [], "amends": []}
    small_tables.append(lake.paths.table("cuts"), [{**row, "versions": list(versions.items())}], CUTS)


def clean(lake: Released, spark: Any = None) -> dict[str, int]:
    return maintain_tables(step_of(lake.pipeline, lake.folder, "m", spark), task="clean_history")


def history_rows(lake: Released) -> list[tuple[int, str, int]]:
    rows = arrow_tables.select(
        lake.paths.table("readings_changes"), "select * from t order by _txloom_csn, id, _txloom_pos"
    ).to_pylist()
    return [(row["_txloom_csn"], row["_txloom_op"], row["id"]) for row in rows]


def shown(lake: Released, csn: int) -> list[dict[str, Any]]:
    rows = read.as_of(lake.pipeline, "readings", csn=csn, warehouse=str(lake.folder)).to_pylist()
    return [{name: row[name] for name in ("id", "name", "note")} for row in rows]


def row(key: int, name: str, note: str = "long") -> dict[str, Any]:
    return {"id": key, "name": name, "note": note}


@pytest.fixture
def lake(tmp_path: Path) -> Released:
    made = Released(tmp_path, COLUMNS, more=KEEP)
    made.release(10, [("I", {}, row(1, "a")), ("I", {}, row(2, "b"))])
    made.release(20, [("U", {"id": 1}, {"name": "c"}), ("U", {"id": 2}, row(2, "d", "new"))])
    made.release(30, [("U", {"id": 1}, row(1, "e")), ("D", {"id": 2}, {})])
    made.release(OLD + 2, [("U", {"id": 1}, row(1, "f"))])
    made.merge(nothing)
    cut(made, 1, OLD + 2, 0, readings=1)
    return made


def test_what_later_rows_supersede_goes_and_states_from_the_horizon_on_stay(lake: Released) -> None:
    states = {csn: shown(lake, csn) for csn in (30, OLD, OLD + 1, OLD + 2)}
    before = DeltaTable(lake.paths.table("readings_changes")).version()
    assert clean(lake) == {"tables": 1, "cleaned": 1, "rows_before": 7, "rows_after": 3, "horizon": 30}
    assert history_rows(lake) == [(30, "U", 1), (30, "D", 2), (OLD + 2, "U", 1)]
    assert {csn: shown(lake, csn) for csn in states} == states
    assert DeltaTable(lake.paths.table("readings_changes")).version() == before + 1, "one commit"
    assert clean(lake) == {"tables": 1, "cleaned": 0, "rows_before": 3, "rows_after": 3, "horizon": 30}
    assert DeltaTable(lake.paths.table("readings_changes")).version() == before + 1, "nothing to do, nothing written"
    lines = small_tables.query(
        lake.paths.table("ledger"), "select counts from t where step = 'maintain_tables.clean_history'"
    )
    assert sorted(dict(line["counts"])["rows_after"] for line in lines) == [3, 3]


def test_a_reader_of_an_earlier_state_is_told(lake: Released) -> None:
    clean(lake)
    with pytest.raises(BeforeHistory) as error:
        shown(lake, 29)
    assert str(error.value) == (
        "as of csn 29: the history of readings was cleaned up to 30 (maintenance.history.keep); "
        "from there on every state can be read"
    )
    table = read.intervals(lake.pipeline, "readings", warehouse=str(lake.folder))
    assert [(row["name"], row["_txloom_valid_from"], row["_txloom_valid_to"]) for row in table.to_pylist()] == [
        ("e", 30, OLD + 2),
        ("f", OLD + 2, None),
    ]


def test_without_a_policy_or_a_cut_nothing_goes(tmp_path: Path) -> None:
    lake = Released(tmp_path, COLUMNS)
    lake.release(10, [("I", {}, row(1, "a"))])
    lake.release(20, [("D", {"id": 1}, {})])
    lake.merge(nothing)
    assert clean(lake)["horizon"] == 0
    lake.more = KEEP
    lake.declare("")
    assert clean(lake) == {"tables": 1, "cleaned": 0, "rows_before": 2, "rows_after": 2, "horizon": 0}


def test_a_table_without_a_key_is_kept_whole(tmp_path: Path) -> None:
    lake = Released(tmp_path, COLUMNS, key="none", more=KEEP)
    lake.release(10, [("I", {}, row(1, "a")), ("I", {}, row(1, "a"))])
    lake.release(20, [("T", {}, {})])
    lake.merge(nothing)
    cut(lake, 1, 20, 0)
    assert clean(lake) == {"tables": 0, "cleaned": 0, "rows_before": 0, "rows_after": 0, "horizon": 20}
    assert len(history_rows(lake)) == 3


def test_what_is_released_but_not_merged_supersedes_nothing(lake: Released) -> None:
    lake.release(31, [("U", {"id": 1}, row(1, "late"))])
    assert clean(lake)["horizon"] == 31
    assert [listed for listed in history_rows(lake) if listed[0] in (30, 31)] == [
        (30, "U", 1),
        (30, "D", 2),
        (31, "U", 1),
    ]
    lake.merge(nothing)
    assert [listed["name"] for listed in shown(lake, OLD)] == ["late"]


def test_late_transactions_end_as_they_would_have(lake: Released, tmp_path: Path) -> None:
    other = tmp_path / "whole"
    other.mkdir()
    whole = Released(other, COLUMNS)
    for csn, changes in (
        (10, [("I", {}, row(1, "a")), ("I", {}, row(2, "b"))]),
        (20, [("U", {"id": 1}, {"name": "c"}), ("U", {"id": 2}, row(2, "d", "new"))]),
        (30, [("U", {"id": 1}, row(1, "e")), ("D", {"id": 2}, {})]),
        (OLD + 2, [("U", {"id": 1}, row(1, "f"))]),
    ):
        whole.release(csn, changes)
    whole.merge(nothing)
    clean(lake)
    late: list[tuple[int, list[Any]]] = [
        (15, [("U", {"id": 2}, {"name": "late"}), ("I", {}, row(3, "three"))]),
        (40, [("U", {"id": 1}, {"name": "later"}), ("U", {"id": 3}, {"note": "short"})]),
        (12, [("T", {}, {})]),
        (25, [("U", {"id": 1}, row(4, "moved")), ("I", {}, row(1, "again"))]),
    ]
    for csn, changes in late:
        for each in (lake, whole):
            each.release(csn, changes)
            each.merge(nothing)
        assert shown(lake, OLD + 2) == shown(whole, OLD + 2)
    assert [row["id"] for row in shown(lake, OLD + 2)] == [1, 3, 4]


def test_a_late_change_that_needs_what_was_cleaned_is_a_finding(lake: Released) -> None:
    clean(lake)
    lake.release(15, [("U", {"id": 2}, {"id": 5, "name": "moved"})])
    lake.merge(nothing)
    (finding,) = small_tables.query(
        lake.paths.table("findings"), "select * from t where code = 'came too late for its history'"
    )
    assert (finding["table"], finding["since_csn"], finding["needs_snapshot"]) == ("readings", 15, True)
    assert finding["evidence"] == "1 rows changed their key below csn 30"


@pytest.mark.parametrize("writer", ["at once", "in pieces", "spark"])
def test_a_run_that_dies_around_its_commit_is_repeated(
    lake: Released, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, writer: str
) -> None:
    """Spark takes rows out of files of which it has marked others before: delta-rs cannot name these."""
    spark = None
    if writer == "in pieces":
        monkeypatch.setattr(arrow_tables, "LOCAL_ROWS", 0)
        cut_small(monkeypatch, 300)
    if writer == "spark":
        spark = request.getfixturevalue("spark")
        mark_one(spark, lake)
    monkeypatch.setattr("txloom.steps.maintenance.maintain_tables.write_ledger", died := Died())
    with pytest.raises(Killed):
        clean(lake, spark)
    assert died.counts["rows_after"] == 3
    monkeypatch.undo()
    assert clean(lake)["rows_before"] == 3
    assert history_rows(lake) == [(30, "U", 1), (30, "D", 2), (OLD + 2, "U", 1)]
    with pytest.raises(BeforeHistory):
        shown(lake, 29)


def mark_one(spark: Any, lake: Released) -> None:
    """Let Spark mark a row of each file of the history as removed, one that nobody has seen before."""
    path = lake.paths.table("readings_changes")
    DeltaTable(path).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    rows = arrow_tables.select(path, "select * from t")
    extra = rows.set_column(0, rows.schema.field(0), pa.array([-1] * rows.num_rows, rows.schema.field(0).type))
    write_deltalake(path, pa.concat_tables([rows, extra]), mode="overwrite")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE {rows.column_names[0]} = -1")
    assert any(file.kept is not None for file in TableFiles.open(path).files)


class Killed(Exception):
    pass


class Died:
    """Stands where a run ends: between the histories' commits and the ledger."""

    counts: dict[str, int]

    def __call__(self, _warehouse: str, _pipeline: str, entry: Entry) -> None:
        self.counts = entry.counts
        raise Killed


@st.composite
def transactions(draw: st.DrawFn) -> list[list[Any]]:
    """Draw the changes of transactions: some keys change, so that rows of one chain lie in different buckets."""
    keys, names = st.integers(0, draw(st.sampled_from((2, 11)))), st.sampled_from("abc")
    rarely = st.sampled_from([False] * draw(st.sampled_from((0, 3, 9))) + [True])
    made: list[list[Any]] = []
    for _ in range(draw(st.integers(4, 40))):
        changes: list[Any] = []
        for what in draw(st.lists(st.sampled_from("IUUSD"), min_size=1, max_size=3)):
            key, name = draw(keys), draw(names)
            new = draw(keys) if what in "US" and draw(rarely) else key
            changes.append(
                {
                    "I": ("I", {}, row(key, name)),
                    "U": ("U", {"id": key}, row(new, name)),
                    "S": ("U", {"id": key}, {"id": new, "name": name}),
                    "D": ("D", {"id": key}, {}),
                }[what]
            )
        made.append([("T", {}, {}), *changes] if draw(st.integers(0, 30)) == 0 else changes)
    return made


@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(transactions(), st.integers(1, 60), st.sampled_from((100, 300, 1_000)))
@example([*([("I", {}, {"id": key, "name": "a"})] for key in range(6)), [("T", {}, {})]], 60, 100)
def test_pieces_take_the_same_rows_away(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[list[Any]], through: int, size: int
) -> None:
    """through: the newest csn that cuts let go. size: bytes of a piece, so that some histories have many."""
    left, folder = [], tmp_path_factory.mktemp("cleaned")
    for writer in ("at once", "in pieces"):
        (folder / writer).mkdir()
        lake = Released(folder / writer, COLUMNS, more=KEEP)
        for csn, changes in enumerate(drawn, 10):
            lake.release(csn, changes)
        lake.merge(nothing)
        cut(lake, 1, through, 0)
        with pytest.MonkeyPatch.context() as limits:
            if writer == "in pieces":
                limits.setattr(arrow_tables, "LOCAL_ROWS", -1)
                cut_small(limits, size)
            counts = clean(lake)
        assert counts["rows_before"] == sum(map(len, drawn))
        assert counts["rows_after"] == len(history_rows(lake))
        left.append((counts, history_rows(lake), shown(lake, 9 + len(drawn))))
    assert left[0] == left[1]


def test_tasks_take_the_same_rows_away(lake: Released, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, 300, by_tasks=True)
    folders = note_folders(monkeypatch)
    assert clean(lake)["rows_after"] == 3
    assert history_rows(lake) == [(30, "U", 1), (30, "D", 2), (OLD + 2, "U", 1)]
    assert folders and not any(folder.exists() for folder in folders), "pieces are gone"


def test_files_without_a_superseded_row_stay_and_tasks_get_only_the_rows_of_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Released(tmp_path, COLUMNS, more=KEEP)
    for csn in range(10, 30):
        lake.release(csn, [("I" if csn < 12 else "U", {} if csn < 12 else {"id": csn % 2}, row(csn % 2, "a"))])
    lake.merge(nothing)
    cut(lake, 1, 19, 0)
    path, given = lake.paths.table("readings_changes"), list[tuple[int, int]]()
    before = {file.path: file.bounds["_txloom_csn"][0] for file in TableFiles.open(path).files}
    within = history_cleaning._within

    def noted(removed: pa.Table, files: Any) -> pa.Table:
        chosen = within(removed, files)
        given.append((chosen.num_rows, removed.num_rows))
        return chosen

    monkeypatch.setattr(history_cleaning, "_within", noted)
    assert clean(lake)["rows_after"] == 12
    after = {file.path for file in TableFiles.open(path).files}
    assert {csn for file, csn in before.items() if file not in after} == set(range(10, 18))
    assert len(given) > 1 and sum(some for some, _ in given) == given[0][1] == 8


def test_the_horizon_is_below_all_that_is_young_and_at_the_oldest_readable_cut(tmp_path: Path) -> None:
    lake, paths = Released(tmp_path, COLUMNS), TablePaths(str(tmp_path), "plant")
    now, keep, retain = datetime.now(UTC), timedelta(days=400), timedelta(days=7)

    def horizon() -> int:
        return history_retention.horizon(paths, keep, retain, now)

    assert horizon() == 0, "before the first transaction"
    for csn in (10, OLD - 5, OLD + 3, OLD + 9):
        lake.release(csn, [])
    assert horizon() == 0, "before the first cut"
    cut(lake, 1, OLD + 9, 30, readings=5)
    assert horizon() == OLD - 5
    for cut_id, (through, days_ago, version) in enumerate([(4, 30, 1), (5, 20, 1), (9, 10, 2), (11, 8, 3)], 1):
        cut(lake, 10 + cut_id, through, days_ago, readings=version)
    assert horizon() == 11, "the newest cut can always be read"
    cut(lake, 20, OLD - 3, 6, readings=4)
    assert horizon() == 11, "it was replaced within the retention"
    cut(lake, 21, OLD - 2, 5, readings=4)
    assert history_retention.horizon(paths, keep, retain, now + timedelta(days=1.5)) == OLD - 5
    assert history_retention.horizon(paths, timedelta(days=DAYS - 9.5), retain, now) == 0
