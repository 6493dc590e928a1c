"""A large Parquet file in parts: their rows are those of the file, each once, under its number."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from txloom.config.models.pipeline import Table
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.storage.snapshots import snapshot_files
from txloom.storage.snapshots.snapshot_files import SnapshotFile

THINGS = Table.model_validate(
    {"name": "things", "source": "SHOP.THINGS", "key": ["id"], "columns": {"id": "long", "name": "string"}}
)


def written(file: Path, rows: int, group: int) -> SnapshotFile:
    table = pa.table({"id": pa.array(range(rows), pa.int64()), "name": [f"thing {number}" for number in range(rows)]})
    pq.write_table(table, file, row_group_size=group)
    return SnapshotFile("things", str(file), file.stat().st_size)


def read(file: SnapshotFile) -> list[tuple[int, str]]:
    """Return the rows with their numbers."""
    return [
        (first + at, str(image))
        for first, images in snapshot_files.typed_images(file, THINGS)
        for at, image in enumerate(images)
    ]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 60), st.integers(1, 25), st.integers(1, 20), st.integers(1, 5), st.integers(1, 9))
def test_parts_have_each_row_once(
    tmp_path: Path, rows: int, group: int, part_rows: int, parts_of_group: int, batch: int
) -> None:
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(snapshot_files, "PART_ROWS", part_rows)
        limits.setattr(snapshot_files, "PARTS_OF_GROUP", parts_of_group)
        limits.setattr(snapshot_files, "BATCH", batch)
        whole = written(tmp_path / "rows.parquet", rows, group)
        parts = snapshot_files.parts_of(whole, THINGS)
        assert [row for part in parts for row in read(part)] == read(whole)
        assert len(read(whole)) == rows
        groups = -(-rows // group)
        assert len(parts) == max(1, min(-(-rows // part_rows), groups * parts_of_group))


def test_a_file_that_is_read_row_by_row_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_files, "PART_ROWS", 2)
    other = THINGS.model_copy(update={"columns": THINGS.columns[:1]})
    file = written(tmp_path / "rows.parquet", 5, 2)
    assert len(snapshot_files.parts_of(file, THINGS)) == 3
    assert snapshot_files.parts_of(file, other) == [file]
    lines = SnapshotFile("things", str(tmp_path / "rows.jsonl"), 1)
    assert snapshot_files.parts_of(lines, THINGS) == [lines]


def test_a_broken_file_stays_whole_for_who_reads_it(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 no more")
    file = SnapshotFile("things", str(tmp_path / "rows.parquet"), 12)
    assert snapshot_files.parts_of(file, THINGS) == [file]
    with pytest.raises(ConfigurationError, match=r"rows.parquet: cannot be read behind row 0: "):
        read(file)


@pytest.mark.parametrize("columns", [["id"], ["id", "name"]])
def test_a_part_of_a_file_that_became_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: list[str]
) -> None:
    """Of other columns, or of the same with other rows."""
    monkeypatch.setattr(snapshot_files, "PART_ROWS", 2)
    part = snapshot_files.parts_of(written(tmp_path / "rows.parquet", 5, 2), THINGS)[0]
    other = pa.table({"id": pa.array(range(7), pa.int64()), "name": ["other"] * 7})
    pq.write_table(other.select(columns), part.path)
    with pytest.raises(SourceUnavailable, match=r"rows.parquet: it was changed while it was read"):
        read(part)
