"""Files that hold a table's rows as of one moment: JSON lines, CSV or Parquet, in one folder for each table.

`<path>/<table>/*.jsonl|.json|.csv` (each also with .gz) or `*.parquet`. A folder without rows means that its table is
empty. In CSV an empty field is null, and a quoted empty one an empty text.
"""

import zlib
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from txloom.config.models.pipeline import Pipeline, Table
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.events.diagnosis import diagnosed
from txloom.events.images import typed_rows
from txloom.storage.sources.row_files import BATCH, as_json, csv_rows, parquet_rows, timestamps_of_96_bits
from txloom.storage.stores.places import listed, parquet_file, place, unpacked

B = TypeVar("B", bound=Sized)
PART_ROWS = 250_000
"""Rows of a Parquet file that a task reads."""
PARTS_OF_GROUP = 4
"""The most tasks that share a row group: each of them unpacks all of it."""
KINDS = (".jsonl", ".json", ".csv", ".parquet")


@dataclass(frozen=True)
class SnapshotFile:
    """A file with rows of a table, or some of them; size: of the file, in bytes."""

    table: str
    path: str
    size: int
    rows: tuple[int, int] | None = None
    """The number of the first row and of the one behind the last, counted from 1; None: all rows."""

    @property
    def kind(self) -> str:
        """Return the suffix that names its format."""
        return next(kind for kind in KINDS if Path(self.path.removesuffix(".gz")).suffix == kind)


def tables_of(pipeline: Pipeline, path: str) -> dict[str, list[SnapshotFile]]:
    """Return the files of every watched table in a snapshot's folder.

    Raises:
        SourceUnavailable: the folder does not exist.
        ConfigurationError: it holds no table, or something that is no watched table or no file of rows.
    """
    folder = place(path)
    if not folder.is_dir():
        raise SourceUnavailable(f"{path}: the snapshot's folder does not exist")
    declared = {table.name: table for table in pipeline.tables}
    files_by_table: dict[str, list[SnapshotFile]] = {}
    for table_folder in (entry for entry in listed(folder) if not entry.name.startswith((".", "_"))):
        if table_folder.name not in declared or not table_folder.is_dir():
            known = ", ".join(sorted(declared))
            raise ConfigurationError(f"{table_folder}: expected folders named like watched tables: {known}")
        files = [entry for entry in listed(table_folder) if not entry.name.startswith((".", "_"))]
        for file in files:
            if Path(file.name.removesuffix(".gz")).suffix not in KINDS:
                raise ConfigurationError(f"{file}: expected files that end in {', '.join(KINDS)}")
        files_by_table[table_folder.name] = [
            SnapshotFile(table_folder.name, str(file), file.stat().st_size) for file in files
        ]
    if not files_by_table:
        raise ConfigurationError(f"{path}: no folder of a watched table in it")
    return files_by_table


def parts_of(file: SnapshotFile, table: Table) -> list[SnapshotFile]:
    """Split a file into ranges of about PART_ROWS rows, where `typed_images` can begin within it."""
    if file.kind != ".parquet":
        return [file]
    try:
        with parquet_file(file.path) as parquet:
            count, groups = parquet.metadata.num_rows, parquet.metadata.num_row_groups
            if count <= PART_ROWS or not _fits(parquet, table):
                return [file]
    except (OSError, pa.ArrowInvalid):
        return [file]  # who reads it says so
    parts = min(-(-count // PART_ROWS), groups * PARTS_OF_GROUP)
    bounds = [1 + count * number // parts for number in range(parts + 1)]
    return [replace(file, rows=range_of) for range_of in pairwise(bounds)]


def images(file: SnapshotFile, table: Table) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (number of the first row, images as JSON objects) in batches; rows count from 1.

    Raises ConfigurationError, with file and line, for a file or line that cannot be read as rows.
    """
    yield from _numbered(file, _read(file, table))


def typed_images(file: SnapshotFile, table: Table) -> Iterator[tuple[int, list[bytes] | pa.StringArray]]:
    """Yield what `images` does; an array where every value surely fits its column (`events.images.typed_rows`)."""
    yield from _numbered(file, _typed(file, table) if file.kind == ".parquet" else _read(file, table))


def _numbered(file: SnapshotFile, batches: Iterable[B]) -> Iterator[tuple[int, B]]:
    number = file.rows[0] if file.rows else 1
    try:
        for batch in batches:
            yield number, batch
            number += len(batch)
    except (OSError, EOFError, zlib.error, pa.ArrowInvalid) as error:
        raise ConfigurationError(f"{file.path}: cannot be read behind row {number - 1}: {error}") from error


def _read(file: SnapshotFile, table: Table) -> Iterator[list[bytes]]:
    if file.kind == ".parquet":
        yield from parquet_rows(place(file.path))
    elif file.kind == ".csv":
        yield from _csv(file)
    else:
        yield from _lines(file, table)


def _typed(file: SnapshotFile, table: Table) -> Iterator[list[bytes] | pa.StringArray]:
    with parquet_file(file.path) as parquet:
        fits = _fits(parquet, table)
        if file.rows is not None and not (fits and _is_same(file, parquet)):
            raise SourceUnavailable(f"{file.path}: it was changed while it was read")
        if not fits:
            yield from parquet_rows(place(file.path))
            return
        for batch in _batches(parquet, *(file.rows or (1, parquet.metadata.num_rows + 1))):
            written = typed_rows.images(table, batch)
            yield as_json(batch.schema.names, batch.columns) if written is None else written


def _is_same(part: SnapshotFile, parquet: pq.ParquetFile) -> bool:
    """Return whether a file is the one that was split into parts, as far as its size and its rows tell."""
    assert part.rows is not None
    return place(part.path).stat().st_size == part.size and parquet.metadata.num_rows >= part.rows[1] - 1


def _fits(parquet: pq.ParquetFile, table: Table) -> bool:
    return not timestamps_of_96_bits(parquet) and typed_rows.fits(table, parquet.schema_arrow)


def _batches(parquet: pq.ParquetFile, first: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield rows from one number up to in front of another; only row groups that have some of them are read."""
    sizes = [parquet.metadata.row_group(number).num_rows for number in range(parquet.metadata.num_row_groups)]
    starts = [1, *(1 + start for start in accumulate(sizes))]
    groups = [number for number, size in enumerate(sizes) if starts[number] < end and starts[number] + size > first]
    at = starts[groups[0]] if groups else end
    for batch in parquet.iter_batches(BATCH, row_groups=groups):
        low, high = max(first - at, 0), min(end - at, batch.num_rows)
        chosen = batch.slice(low, max(high - low, 0))
        at += batch.num_rows
        if chosen.num_rows:
            yield chosen
        if at >= end:
            return


def _lines(file: SnapshotFile, table: Table) -> Iterator[list[bytes]]:
    decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
    with unpacked(place(file.path)) as stream:
        held: list[bytes] = []
        for number, line in enumerate(stream, 1):
            text = line.strip()
            if not text:
                continue
            try:
                decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                _, detail = diagnosed(text, error)
                raise ConfigurationError(f"{file.path}:{number}: not a row of {table.name}: {detail}") from error
            held.append(text)
            if len(held) == BATCH:
                yield held
                held = []
        if held:
            yield held


def _csv(file: SnapshotFile) -> Iterator[list[bytes]]:
    try:
        yield from csv_rows(place(file.path))
    except pa.ArrowInvalid as error:
        raise ConfigurationError(f"{file.path}: not a CSV file with a header: {error}") from error
