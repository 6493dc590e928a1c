"""Rows that are cut into pieces: each lies in one, equal keys and connected ones in the same."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.rewriting.test_changed_keys import VALUES
from txloom.storage.delta import arrow_tables
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.pieces import Cuts, PieceFiles, clear, cuts_of, read, sampled
from txloom.storage.spark import tasks


@given(st.data())
def test_equal_values_lie_in_one_piece_and_pieces_are_in_order(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(VALUES)))
    column = pa.array(data.draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=20)), kind)
    pieces = data.draw(st.integers(1, 6))
    cuts = cuts_of(pa.table({"k": column}), pieces, {})
    numbers = cuts.piece_of(pa.chunked_array([column]))
    assert cuts.pieces <= pieces
    assert set(numbers.tolist()) <= set(range(cuts.pieces))
    known = sorted(
        (value, piece) for value, piece in zip(column.to_pylist(), numbers.tolist(), strict=True) if value is not None
    )
    assert [piece for _, piece in known] == sorted(piece for _, piece in known)
    assert all(low[0] != high[0] or low[1] == high[1] for low, high in itertools.pairwise(known))


@given(st.lists(st.integers(0, 9), min_size=1), st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=3))
def test_connected_values_lie_where_the_one_lies_that_stands_for_them(
    values: list[int], together: dict[int, int]
) -> None:
    column = pa.chunked_array([pa.array(values, pa.int64())])
    plain, connected = Cuts("k", pa.array([3, 6])), Cuts("k", pa.array([3, 6]), together)
    stands = pa.chunked_array([pa.array([together.get(value, value) for value in values], pa.int64())])
    assert connected.piece_of(column).tolist() == plain.piece_of(stands).tolist()


def test_the_column_with_the_most_values_decides() -> None:
    sample = pa.table({"tenant": [1, 1, 1, 2], "id": [1, 2, 3, 4]})
    assert cuts_of(sample, 2, {"id": {7: 1}, "tenant": {}}) == Cuts("id", pa.array([3]), {7: 1})


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.text(max_size=3)), max_size=6), max_size=5), st.booleans())
def test_files_give_back_what_was_written_piece_by_piece(
    tmp_path_factory: pytest.TempPathFactory, parts: list[Any], is_shared: bool
) -> None:
    table = tmp_path_factory.mktemp("lake")
    schema = pa.schema([("piece", pa.int64()), ("text", pa.string())])
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(tasks.MASTER, "spark://elsewhere:7077" if is_shared else "local[2]")
        with pieces.folder(str(table)) as folder, PieceFiles(folder) as files, PieceFiles(folder) as others:
            for part in parts:
                rows = pa.Table.from_pylist([{"piece": piece, "text": text} for piece, text in part], schema)
                files.write(rows, np.array([piece for piece, _ in part], np.int64))
                others.write(rows.slice(0, 0), np.array([], np.int64))
            assert others.closed(6) == [""] * 6
            for piece, file in enumerate(files.closed(6)):
                expected = [text for part in parts for at, text in part if at == piece]
                assert read(file, schema).column("text").to_pylist() == expected
                assert bool(file) == bool(expected)
            assert Path(folder).is_relative_to(table) == is_shared
            made = Path(folder)
    assert not made.exists() or list(made.iterdir()) == []


@given(st.lists(st.integers(0, 7), max_size=6), st.integers(1, 9))
def test_crumbs_are_gathered_and_none_is_lost(sizes: list[int], least: int) -> None:
    parts = [pa.table({"n": pa.array(range(size), pa.int64())}) for size in sizes]
    tables = list(arrow_tables.gathered(parts, least))
    assert all(each.num_rows >= least for each in tables[:-1])
    assert [n for each in tables for n in each.column("n").to_pylist()] == [n for size in sizes for n in range(size)]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 9))
def test_a_sample_has_every_so_manieth_row(sizes: list[int], most: int) -> None:
    starts = np.cumsum([0, *sizes])
    parts = [
        pa.table({"n": pa.array(range(start, start + size), pa.int64())})
        for start, size in zip(starts, sizes, strict=False)
    ]
    sample, count = sampled(parts, most)
    numbers = sample.column("n").to_pylist()
    assert count == sum(sizes)
    assert len(numbers) <= 2 * most
    assert len(set(np.diff(numbers))) <= 1, "rows are equally far from each other"
    assert not count or numbers[0] == 0


def test_what_a_killed_job_left_is_removed(tmp_path: Path) -> None:
    shared = tmp_path / "pieces"
    clear(str(shared))
    (shared / "left").mkdir(parents=True)
    (shared / "left" / "0.arrow").touch()
    clear(str(shared))
    assert list(shared.iterdir()) == []
