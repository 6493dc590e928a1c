"""Somebody optimizes a table while it is merged: Delta refuses the merge, which is made again."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from released import Released
from txloom.errors import WriteConflict
from txloom.storage.delta import arrow_tables, committing, retry, small_merge
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.targets import spark_fold

RETRIED = "another writer came first, the write is made again: "
EFFECTS = [{"id": 1, "value": 10, "_txloom_deleted": False}, {"id": 9, "value": 90, "_txloom_deleted": False}]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a table of three small files."""
    for n in (1, 2, 3):
        write_deltalake(tmp_path / "t", pa.table({"id": [n], "value": [n]}), mode="append")
    return str(tmp_path / "t")


def rows(path: str) -> list[tuple[int, int]]:
    return [(row["id"], row["value"]) for row in arrow_tables.select(path, "select * from t order by id").to_pylist()]


def operations(path: str) -> list[str]:
    return [commit["operation"] for commit in DeltaTable(path).history()]


def optimized_meanwhile(monkeypatch: pytest.MonkeyPatch, path: str, times: int) -> None:
    """Optimize a table after a merge has read it and before it commits."""
    conform, left = arrow_tables.conform, iter(range(times))

    def conformed(*given: Any) -> pa.Table:
        for _ in left:
            write_deltalake(path, pa.table({"id": [100 + _], "value": [0]}), mode="append")
            DeltaTable(path).optimize.compact()
            break
        return conform(*given)

    monkeypatch.setattr(arrow_tables, "conform", conformed)


def test_a_small_merge_that_meets_an_optimize_is_made_again(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    optimized_meanwhile(monkeypatch, path, times=1)
    retry.repeated(partial(small_merge.merge, path, pa.Table.from_pylist(EFFECTS), ["id"], {}))
    assert rows(path) == [(1, 10), (2, 2), (3, 3), (9, 90), (100, 0)]
    assert operations(path)[:3] == ["MERGE", "OPTIMIZE", "WRITE"]
    assert capsys.readouterr().out.count(RETRIED) == 1


def test_a_writer_that_never_ends_is_a_conflict_that_names_it(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    optimized_meanwhile(monkeypatch, path, times=99)
    merge = partial(small_merge.merge, path, pa.Table.from_pylist(EFFECTS), ["id"], {})
    with pytest.raises(WriteConflict, match=r"^others write all the time: .*; end what optimizes or changes this"):
        retry.repeated(merge)
    assert (1, 1) in rows(path)


def test_what_is_no_conflict_is_not_repeated() -> None:
    calls: Iterator[Exception] = iter([ValueError("no"), AssertionError("called again")])

    def write() -> None:
        raise next(calls)

    with pytest.raises(ValueError, match=r"^no$"):
        retry.repeated(write)


def test_a_merge_by_spark_that_meets_an_optimize_is_made_again(
    spark: Any, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = tmp_path / "optimized"

    def optimizing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with suppress(FileExistsError):  # of two tasks, one optimizes
            once.touch(exist_ok=False)
            DeltaTable(path).optimize.compact()
        yield from batches

    effects = spark.createDataFrame(EFFECTS, "id long, value long, _txloom_deleted boolean")
    effects = effects.mapInArrow(optimizing, effects.schema)
    retry.repeated(partial(spark_fold.merge, path, effects, ["id"], metadata="{}"))
    assert rows(path) == [(1, 10), (2, 2), (3, 3), (9, 90)]
    assert operations(path)[:2] == ["MERGE", "OPTIMIZE"]
    assert capsys.readouterr().out.count(RETRIED) == 1


def test_merge_current_survives_whoever_rewrites_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Released(tmp_path, "id: long, value: long")
    lake.release(1, [("I", {}, {"id": 1, "value": 1})])
    lake.merge(nothing)
    lake.release(2, [("U", {"id": 1}, {"id": 1, "value": 2}), ("I", {}, {"id": 2, "value": 2})])
    path, commits = lake.paths.table("readings"), list[Rewrite]()
    commit = Rewrite.commit

    def committed(self: Rewrite, metadata: Mapping[str, Any]) -> None:
        if not commits:
            DeltaTable(path).optimize.compact()
            DeltaTable(path).update(updates={"value": "value"})
        commits.append(self)
        commit(self, metadata)

    monkeypatch.setattr(Rewrite, "commit", committed)
    assert lake.merge(nothing)["changes"] == 2
    assert rows(path) == [(1, 2), (2, 2)]
    assert len(commits) == 2
    assert RETRIED in capsys.readouterr().out


nothing: Callable[[], Any] = lambda: pytest.fail("a small table opened a Spark session")  # noqa: E731


def test_a_commit_that_meets_others_each_time_names_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1]}))
    monkeypatch.setattr(committing, "ATTEMPTS", 2)

    def refused(*_: object) -> None:
        raise CommitFailedError("another commit")

    with pytest.raises(WriteConflict) as error:
        committing.commit_once(path, None, refused)
    assert str(error.value) == f"{path}: others write all the time: another commit; run the step again"
