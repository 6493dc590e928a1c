"""Cut rows into pieces by ranges of one key column, so that each piece fits into memory, and keep them in files.

Ranges, and not hashes, because what is written piece by piece then lies together by key: a later merge finds the few
files that hold its keys. Keys that changes of keys connect lie in one piece.
"""

import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, AnyColumn
from txloom.storage.delta import arrow_tables
from txloom.storage.rewriting.table_files import comparable, has_order
from txloom.storage.spark import tasks
from txloom.storage.stores.file_systems import clear, filesystem_of

FOLDER = "_txloom_pieces"
"""The folder of pieces in that of a table: readers and VACUUM leave it alone."""
AT_ONCE_BYTES = int(os.environ.get("TXLOOM_MERGE_BYTES", str(128 << 20)))
"""Bytes of Arrow rows up to which they are not cut into pieces; folding takes about four times as much memory."""
PIECE_BYTES = 64 << 20
"""Bytes of Arrow rows in a piece: less memory is touched for the first time than with larger ones, in half the time."""
GATHERED = 65_536
"""Rows that are split at once, so that pieces do not consist of crumbs."""
GATHERED_BYTES = 16 << 20
"""Bytes of rows that are split at once, however few these are."""


@dataclass(frozen=True)
class Cuts:
    """How rows are cut into pieces.

    Args:
        column: the key column that decides.
        bounds: ascending values of it: a piece begins at each, and one before the first.
        together: values of the column that lie where another one lies, because a change of a key connects them.
    """

    column: str
    bounds: AnyArray
    together: Mapping[Any, Any] = field(default_factory=dict)

    @property
    def pieces(self) -> int:
        """Return how many pieces there are."""
        return len(self.bounds) + 1

    def piece_of(self, values: AnyColumn) -> npt.NDArray[np.int64]:
        """Return the number of each value's piece; that of null is 0."""
        array: AnyArray = values.combine_chunks()
        if self.together:
            old, new = (pa.array(list(side), array.type) for side in (self.together.keys(), self.together.values()))
            array = pc.coalesce(new.take(pc.index_in(array, value_set=old)), array)
        if has_order(array.type) and not pa.types.is_string(array.type):
            known = pc.fill_null(array, self.bounds[0]) if array.null_count and len(self.bounds) else array
            numbers = np.searchsorted(comparable(self.bounds), comparable(known), "right").astype(np.int64)
            return np.where(pc.is_null(array).to_numpy(zero_copy_only=False), 0, numbers)
        numbers = np.zeros(len(array), np.int64)
        for bound in self.bounds:
            behind = pc.greater_equal(array, bound)
            numbers += behind.fill_null(False).to_numpy(zero_copy_only=False)
        return numbers


def cuts_of(sample: pa.Table, pieces: int, together: Mapping[str, Mapping[Any, Any]]) -> Cuts:
    """Return cuts into about equal pieces, by the column of a sample that has the most distinct values.

    Args:
        sample: some values of the key columns, of all rows alike.
        pieces: how many there should be; there are fewer where the sample has fewer values.
        together: by column, values that lie where another one lies.
    """
    column = max(sample.column_names, key=lambda name: len(sample.column(name).unique()))
    values: AnyArray = sample.column(column).combine_chunks().drop_null()
    ordered = values.take(pc.array_sort_indices(values))
    places = [len(ordered) * number // pieces for number in range(1, pieces)]
    bounds = ordered.take(pa.array(places, pa.int64())).unique() if len(ordered) else ordered
    return Cuts(column, bounds, together.get(column, {}))


def gathered(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows that are read part by part in larger parts: of GATHERED rows, or of GATHERED_BYTES."""
    row_bytes = max(GATHERED_BYTES // GATHERED, 1)
    return arrow_tables.gathered(parts, GATHERED, lambda part: max(part.num_rows, part.nbytes // row_bytes))


@contextmanager
def folder(path: str) -> Iterator[str]:
    """Make a folder for pieces that is gone when the block ends.

    path: of a table, in whose folder tasks on other machines read the pieces; where tasks are of this machine, they lie
    in its folder for temporary files (TMPDIR). What a job that was killed has left there is removed: nobody else may be
    working in it.
    """
    if tasks.local_cores():
        with tempfile.TemporaryDirectory(prefix="txloom-") as made:
            yield made
        return
    shared = f"{path}/{FOLDER}"
    clear(shared)
    filesystem, place = filesystem_of(shared)
    filesystem.create_dir(place)
    try:
        yield shared
    finally:
        clear(shared)


class PieceFiles:
    """Writes the rows of pieces into files, one for each piece."""

    def __init__(self, folder: str) -> None:
        """Write nothing yet; folder: in which several may write."""
        self._name = f"{folder}/{uuid.uuid4()}"
        self._streams = ExitStack()
        self._writers = dict[int, pa.ipc.RecordBatchFileWriter]()

    def __enter__(self) -> "PieceFiles":
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the files."""
        self._streams.close()

    def write(self, rows: pa.Table, numbers: npt.NDArray[np.int64]) -> None:
        """Add rows to pieces; numbers: the number of each row's piece."""
        for piece in np.unique(numbers).tolist():
            if piece not in self._writers:
                filesystem, path = filesystem_of(self._file(piece))
                stream = self._streams.enter_context(filesystem.open_output_stream(path))
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                self._writers[piece] = pa.ipc.new_file(stream, rows.schema, options=options)
            self._writers[piece].write_table(rows.filter(pa.array(numbers == piece, pa.bool_())))

    def closed(self, pieces: int) -> list[str]:
        """End all files, and return that of each of so many pieces; "" for one without rows."""
        for writer in self._writers.values():
            writer.close()
        self._streams.close()
        return [self._file(piece) if piece in self._writers else "" for piece in range(pieces)]

    def _file(self, piece: int) -> str:
        return f"{self._name}-{piece}.arrow"


def number_for(size: int, *, by_tasks: bool) -> int:
    """Return into how many pieces so many bytes are cut; where tasks work on them, as many for each core."""
    turns = tasks.cores() if by_tasks else 1
    least = -(-size // PIECE_BYTES)
    return -(-least // turns) * turns


def read(file: str, schema: pa.Schema) -> pa.Table:
    """Return the rows in a file of a piece; schema: of the piece without rows, whose file is ""."""
    if not file:
        return schema.empty_table()
    filesystem, path = filesystem_of(file)
    with filesystem.open_input_file(path) as source, pa.ipc.open_file(source) as reader:
        return reader.read_all()


def sampled(parts: Iterable[pa.Table], most: int) -> tuple[pa.Table, int]:
    """Return every so manieth row of all parts, at most about twice as many as `most`, and how many rows there are.

    >>> rows, count = sampled([pa.table({"n": range(10)})] * 3, 4)
    >>> rows.num_rows <= 8, count
    (True, 30)
    """
    kept, rows, step = list[pa.Table](), 0, 1
    for part in parts:
        kept.append(part.take(pa.array(np.arange(-rows % step, part.num_rows, step), pa.int64())))
        rows += part.num_rows
        while (size := sum(each.num_rows for each in kept)) > 2 * most:
            kept = [pa.concat_tables(kept).take(pa.array(np.arange(0, size, 2), pa.int64()))]
            step *= 2
    return pa.concat_tables(kept), rows
