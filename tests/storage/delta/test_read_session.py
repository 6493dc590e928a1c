"""One look at tables: each at one version, and never an old answer in a new look."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import TableNotFoundError

from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import exists, looking, opened
from txloom.storage.delta.recent_files import FEW, newest_since

COUNT = "select count(*) as n from t"


def put(path: Path, *numbers: int, mode: str = "append") -> None:
    write_deltalake(str(path), pa.table({"n": pa.array(numbers, pa.int64())}), mode=mode)  # type: ignore[call-overload]


def count(path: Path) -> int:
    return int(small_tables.query(str(path), COUNT)[0]["n"])


def test_all_answers_of_a_look_are_of_one_version_and_the_next_look_sees_what_came(tmp_path: Path) -> None:
    table = tmp_path / "t"
    put(table, 1)
    with looking():
        assert count(table) == 1
        put(table, 2)
        assert (count(table), opened(str(table)).version()) == (1, 0)
        with looking():
            assert count(table) == 1
    with looking():
        assert (count(table), opened(str(table)).version()) == (2, 1)
    assert count(table) == 2


def test_a_table_that_was_made_anew_with_as_many_commits_is_another_one(tmp_path: Path) -> None:
    table = tmp_path / "t"
    put(table, 1, 2, 3)
    with looking():
        assert count(table) == 3
    shutil.rmtree(table)
    put(table, 1)
    with looking():
        assert count(table) == 1
    put(table, 2)
    shutil.rmtree(table)
    with looking():
        assert (small_tables.query(str(table), COUNT), exists(str(table))) == ([], False)


def test_outside_of_a_look_every_answer_is_new(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for number in range(3):
        put(table, number)
        assert count(table) == number + 1


def test_an_older_version_can_be_asked_in_a_look(tmp_path: Path) -> None:
    table = tmp_path / "t"
    put(table, 1)
    put(table, 2)
    with looking():
        assert small_tables.ask(opened(str(table), 0), COUNT) == [{"n": 1}]
        assert small_tables.ask(opened(str(table)), COUNT) == [{"n": 2}]


def test_no_table_is_said_to_be_none(tmp_path: Path) -> None:
    with looking():
        assert not exists(str(tmp_path / "t"))
        with pytest.raises(TableNotFoundError):
            opened(str(tmp_path / "t"))


def test_the_end_of_a_table_holds_all_that_is_younger_than_a_moment(tmp_path: Path) -> None:
    path, kind = str(tmp_path / "t"), pa.timestamp("us", "UTC")
    for number in range(FEW + 5):
        write_deltalake(path, pa.table({"at": pa.array([number * 1_000_003], kind)}), mode="append")
        since = newest_since(opened(path))
        assert (since is None) == (number < FEW)
    assert since is not None
    young = small_tables.query(path, f"select count(*) as n from t where at >= timestamp '{since.isoformat()}'")
    assert FEW <= young[0]["n"] <= FEW + 1


def test_a_table_that_nobody_has_written_since_is_not_opened_again(tmp_path: Path) -> None:
    table = tmp_path / "t"
    put(table, 1)
    first = opened(str(table))
    assert opened(str(table)) is first
    put(table, 2)
    assert (opened(str(table)).version(), opened(str(table), 0).version(), first.version()) == (1, 0, 0)
