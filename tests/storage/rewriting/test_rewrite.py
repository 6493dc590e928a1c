"""One commit that takes rows out of files and adds others: what is read after it, what it meets, what it leaves."""

from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from hypothesis import given, settings
from hypothesis import strategies as st

from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.retry import is_conflict
from txloom.storage.delta.sql import among
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.rewriting import rewrite as rewriting
from txloom.storage.rewriting import taken_out
from txloom.storage.rewriting.changed_keys import ChangedKeys, Values
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.rewriting.table_files import TableFile
from txloom.storage.spark import tasks

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("day", pa.date32()), ("items", pa.list_(pa.string()))])
PARTS = (None, "a b", "x/y%", "ü=1", "'")


def table(folder: Path, partition_by: str | None = None) -> str:
    """Make an empty table."""
    path = str(folder / "t")
    small_tables.ensure(
        path, SCHEMA, small_tables.DELETION_VECTORS, partition_by=[partition_by] if partition_by else []
    )
    return path


def row(number: int, part: str | None = None) -> dict[str, Any]:
    return {"id": number, "part": part, "day": date(2026, 1, 1 + number % 28), "items": ["i"] * (number % 3)}


def keys(*ids: int) -> ChangedKeys:
    return ChangedKeys({"id": Values.of([pa.array(ids, pa.int64())], pa.int64())})


def no_spark() -> NoReturn:
    raise AssertionError("files are few, and no session is needed")


def held_by(made: Rewrite, keys: ChangedKeys) -> list[TableFile]:
    return taken_out.holding(no_spark, made, keys)


def replaced(path: str, ids: list[int], rows: list[dict[str, Any]]) -> Rewrite:
    """Let rows with some ids be gone, and others be there, without a commit."""
    made, gone = Rewrite.of(path, ["id"]), keys(*ids)
    assert {each["id"] for part in made.take_out(held_by(made, gone), gone) for each in part.to_pylist()} <= set(ids)
    made.add(pa.Table.from_pylist(rows, SCHEMA))
    return made


def stored(path: str) -> list[dict[str, Any]]:
    return sorted(arrow_tables.select(path, "select * from t").to_pylist(), key=lambda each: each["id"])


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([None, "part", "day"]),
    st.sampled_from([60, rewriting.FILE_BYTES]),
    st.lists(
        st.tuples(st.sets(st.integers(0, 12)), st.dictionaries(st.integers(0, 12), st.sampled_from(PARTS))), max_size=5
    ),
)
def test_commits_leave_exactly_the_rows_that_they_should(
    tmp_path_factory: Any, partition_by: str | None, file_bytes: int, commits: list[Any]
) -> None:
    path, expected = table(tmp_path_factory.mktemp("rewrite"), partition_by), dict[int, dict[str, Any]]()
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(rewriting, "FILE_BYTES", file_bytes)
        for number, (gone, added) in enumerate(commits):
            rows = [row(each, part) for each, part in added.items()]
            made = replaced(path, sorted({*gone, *added}), rows)
            after = [each for file in made.after() for each in made.files.read(file).to_pylist()]
            made.commit({"valid_through": number})
            expected = {key: old for key, old in expected.items() if key not in gone} | {
                each["id"]: each for each in rows
            }
            assert stored(path) == [expected[each] for each in sorted(expected)]
            assert sorted(after, key=lambda each: each["id"]) == stored(path), "what it was to be is what it became"
            assert newest_metadata(path) == {"valid_through": number}
            assert DeltaTable(path).version() == number + 1, "one commit, also where no row changes"


@pytest.mark.parametrize("partition_by", [None, "part"])
@pytest.mark.parametrize("how", ["here", "by tasks"])
def test_rows_are_taken_out_of_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_by: str | None, how: str
) -> None:
    """By tasks of this machine as by this process: rows that are replaced anyway are not returned."""
    path = table(tmp_path, partition_by)
    for number in range(6):
        made = Rewrite.of(path, ["id"])
        made.add(pa.Table.from_pylist([row(10 * number + each, f"p{number}") for each in range(10)], SCHEMA))
        made.commit({})
    chosen, called, in_tasks = [3, 17, 18, 59], list[int](), tasks.in_tasks

    def noted(session: Any, items: Any, work: Any) -> list[Any]:
        called.append(len(items))
        return in_tasks(session, items, work)

    monkeypatch.setattr(tasks, "in_tasks", noted)
    monkeypatch.setattr(tasks, "_is_session_open", lambda: False)
    monkeypatch.setattr(tasks, "local_cores", lambda: 2)
    if how == "by tasks":
        monkeypatch.setattr(taken_out, "TASK_BYTES", 0)
    made = Rewrite.of(path, ["id"])
    held = taken_out.holding(no_spark, made, keys(*chosen))
    assert [file.bounds["id"] for file in held] == [file.bounds["id"] for file in made.files.files if file in held]
    assert sorted(file.bounds["id"] for file in held) == [(0, 9), (10, 19), (50, 59)]
    rows = taken_out.taken_out(no_spark, made, held, keys(*chosen), but=pa.table({"id": [17]}))
    assert sorted(each["id"] for each in rows.to_pylist()) == [3, 18, 59]
    made.commit({})
    assert [each["id"] for each in stored(path)] == [number for number in range(60) if number not in chosen]
    assert bool(called) == (how == "by tasks")


def test_a_file_whose_bounds_leave_the_keys_out_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path)
    for ids in ([1, 2], [5, 6]):
        replaced(path, [], [row(each) for each in ids]).commit({})
    made, read = Rewrite.of(path, ["id"]), list[str]()
    files = type(made.files)
    original = files.read
    monkeypatch.setattr(
        files, "read", lambda self, file, columns=None: read.append(file.path) or original(self, file, columns)
    )
    held = held_by(made, keys(6, 3))
    assert [file.bounds["id"] for file in held] == [(5, 6)]
    assert read == [held[0].path]


@pytest.mark.parametrize("other", ["an OPTIMIZE", "an append"])
def test_a_commit_that_meets_another_one_is_a_conflict_and_changes_nothing(tmp_path: Path, other: str) -> None:
    """An OPTIMIZE has put the rows of a removed file into another one, where they would stay."""
    path = table(tmp_path)
    for number in range(2):
        replaced(path, [], [row(number)]).commit({})
    made = replaced(path, [0], [])
    if other == "an OPTIMIZE":
        DeltaTable(path).optimize.compact()
    else:
        replaced(path, [], [row(2)]).commit({})
    before = stored(path)
    with pytest.raises(CommitFailedError) as met:
        made.commit({})
    assert is_conflict(met.value)
    assert stored(path) == before
    replaced(path, [0], []).commit({})
    assert stored(path) == before[1:]


@pytest.mark.parametrize(
    "text", ["", "\x00", '"\\\n', "x" * 40, "\u2028", "\ue000", "\U0001f600" * 40, "\U0010ffff" * 40]
)
def test_a_row_is_found_by_its_text_however_long_and_whatever_its_characters(tmp_path: Path, text: str) -> None:
    """Its file has it as both of its bounds, by which readers leave files out, and from which they take values."""
    path = str(tmp_path / "t")
    schema = pa.schema([("name", pa.string()), ("id", pa.int64())])
    small_tables.ensure(path, schema, {"delta.dataSkippingStatsColumns": "`name`"})
    made = Rewrite.of(path, ["name"])
    made.add(pa.Table.from_pylist([{"name": text, "id": 1}], schema))
    made.commit({})
    again = Rewrite.of(path, ["name"])
    keys = ChangedKeys({"name": Values.of([pa.array([text])], pa.string())})
    assert len(held_by(again, keys)) == 1
    for condition in (among("name", [text], pa.string()), "name is not null"):
        assert arrow_tables.select(path, f"select * from t where {condition}").to_pylist() == [{"name": text, "id": 1}]
