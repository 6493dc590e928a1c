"""Compare a table's extract with its current rows; the differences are row events of one transaction.

The same functions run on whole tables in this process and on buckets of rows in tasks.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count as numbered
from itertools import zip_longest
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.config import names
from txloom.config.models.pipeline import Table
from txloom.current.row_diff import Difference, difference, with_hashes
from txloom.events.formats import SourceDecoder
from txloom.events.images.reader import ImageReader
from txloom.steps.landing.internal_transaction import InternalTransaction
from txloom.storage.delta import arrow_tables
from txloom.storage.landing import decoding
from txloom.storage.landing.change_events import LINES_PER_FILE
from txloom.storage.snapshots import snapshot_files as snapshots_files
from txloom.storage.snapshots.snapshot_files import SnapshotFile
from txloom.storage.sources.row_files import as_json
from txloom.storage.sources.splits import Task
from txloom.storage.targets import schemas

FILE, LINE = "_txloom_file", "_txloom_line"
"""The position of a row of an extract: the number of its file, and its line."""
KINDS = {"inserts": "I", "updates": "U", "deletes": "D", "missing": "X", "unchanged": "N"}
"""The kinds of rows that are counted, and the letter of each."""


@dataclass(frozen=True)
class Comparison:
    """What is compared.

    Args:
        transaction: the transaction that the differences become.
        table: the table.
        files: the files of its extract.
        full: whether a row that the extract lacks is a deleted one.
        names: by declared column, its name in the current table, which lacks every other column; None: as declared.
    """

    transaction: InternalTransaction
    table: Table
    files: Sequence[SnapshotFile]
    full: bool
    names: Mapping[str, str] | None = None

    def position_of(self, rows: pa.Table, at: int) -> str:
        """Return file and line of a row of the extract."""
        row = rows.slice(at, 1).select([FILE, LINE]).to_pylist()[0]
        return f"{self.files[row[FILE]].path}: row {row[LINE]}"

    def declared(self, rows: pa.Table) -> pa.Table:
        """Return rows of the current table in the declared columns and types; a column that they lack is null."""
        if self.names is not None:
            there = {name: earlier for name, earlier in self.names.items() if earlier in rows.column_names}
            rows = rows.select([*there.values()]).rename_columns([*there])
        return arrow_tables.conform(rows, pa.schema(schemas.columns(self.table)))


@dataclass
class Compared:
    """The result of a comparison, or of a part of one.

    Args:
        counts: rows by kind (KINDS).
        columns: declared columns that the extract has.
        undeclared: undeclared columns that it has.
        problems: messages about rows that cannot be read or compared.
    """

    counts: Counter[str] = field(default_factory=Counter)
    columns: set[str] = field(default_factory=set)
    undeclared: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def add(self, other: "Compared") -> None:
        """Add the result of another part of the same table."""
        self.counts.update(other.counts)
        self.columns |= other.columns
        self.undeclared |= other.undeclared
        self.problems += other.problems

    @property
    def rows(self) -> int:
        """Return how many rows the extract has."""
        return sum(self.counts[kind] for kind in ("inserts", "updates", "unchanged"))

    @property
    def events(self) -> int:
        """Return how many row events there are."""
        return sum(self.counts[kind] for kind in ("inserts", "updates", "deletes"))


def read(table: Table, number: int, file: SnapshotFile, result: Compared) -> Iterator[pa.Table]:
    """Yield a file's rows in the declared types, with file number and line; stop at the first that cannot be read.

    Args:
        table: the table.
        number: of the file.
        file: the file.
        result: columns and problems are added to it.
    """
    reader = ImageReader(table)
    for first, images in snapshots_files.images(file, table):
        # As an update the reader also says which columns a row does not have.
        typed = reader.read([b'{"op_type":"U","after":' + image + b"}" for image in images])
        bad = pc.index(pc.is_valid(typed.column("problem")), True).as_py()
        if bad >= 0:
            result.problems.append(f"{file.path}: row {first + bad}: {typed.column('problem')[bad].as_py()}")
            return
        result.columns |= set(table.column_names) - _lacking(typed)
        result.undeclared |= set(cast("list[str]", pc.list_flatten(typed.column("undeclared")).to_pylist()))
        after = typed.column("after").combine_chunks()
        columns = {name: pc.struct_field(after, name) for name in table.column_names}
        columns[FILE] = pa.repeat(pa.scalar(number, pa.int32()), len(images))
        columns[LINE] = pa.array(range(first, first + len(images)), pa.int64())
        yield pa.table(columns)


def _lacking(typed: pa.Table) -> set[str]:
    """Return the columns that no row has."""
    unchanged: AnyArray = pc.list_flatten(typed.column("unchanged"))
    counts: AnyArray = pc.value_counts(unchanged)
    counted = cast("list[dict[str, Any]]", counts.to_pylist())
    return {each["values"] for each in counted if each["counts"] == typed.num_rows}


def empty(table: Table) -> pa.Table:
    """Return an empty table in the schema of rows that `read` yields."""
    coordinates = [pa.field(FILE, pa.int32()), pa.field(LINE, pa.int64())]
    return pa.schema([*schemas.columns(table), *coordinates]).empty_table()


def in_this_process(comparison: Comparison, current: str, number: int, result: Compared) -> Iterator[pa.Table]:
    """Compare a whole table, and yield row events as rows of change_events.

    Args:
        comparison: what to compare.
        current: the path of its current table, which may not exist yet.
        number: of this part of the transaction.
        result: counts, columns and problems are added to it.
    """
    table = comparison.table
    read_all = [rows for i, file in enumerate(comparison.files) for rows in read(table, i, file, result)]
    if result.problems:
        return
    extract = pa.concat_tables([empty(table), *read_all])
    hashed = with_hashes(extract, table.key, table.column_names)
    rows = comparison.declared(arrow_tables.select(current, "select * from t"))
    yield from compared(comparison, hashed, with_hashes(rows, table.key, table.column_names), number, result)


def compared(
    comparison: Comparison, extract: pa.Table, current: pa.Table, number: int, result: Compared
) -> Iterator[pa.Table]:
    """Compare rows with hashes, and yield row events as rows of change_events, in chunks.

    Args:
        comparison: what to compare.
        extract: rows of `read`, with hashes.
        current: current rows in the declared columns, with hashes.
        number: of this part of the transaction; no other part has events at the same positions.
        result: counts and problems are added to it.
    """
    differences = difference(current, extract)
    if differences.repeated is not None:
        result.problems.append(_repeated(comparison, extract, differences.repeated))
        return
    gone = "deletes" if comparison.full else "missing"
    kinds = {"inserts": differences.inserted, "updates": differences.updated, gone: differences.missing}
    result.counts.update({kind: len(indices) for kind, indices in kinds.items()} | {"unchanged": differences.unchanged})
    yield from _events(comparison, extract, current, differences, number)


def _repeated(comparison: Comparison, extract: pa.Table, indices: tuple[int, int]) -> str:
    key = extract.slice(indices[0], 1).select(comparison.table.key).to_pylist()[0]
    shown = ", ".join(f"{name} {value}" for name, value in key.items())
    first, again = (comparison.position_of(extract, at) for at in indices)
    return f"{first}: its key ({shown}) stands again in {again}"


def _events(
    comparison: Comparison, extract: pa.Table, current: pa.Table, differences: Difference, number: int
) -> Iterator[pa.Table]:
    decoder, position = SourceDecoder(comparison.transaction.pipeline), numbered(1)
    nothing = current.slice(0, 0)
    parts = [("D", current.take(differences.missing), nothing)] if comparison.full else []
    parts += [
        ("U", current.take(differences.replaced), extract.take(differences.updated)),
        ("I", nothing, extract.take(differences.inserted)),
    ]
    for op, old, new in parts:
        for start in range(0, max(old.num_rows, new.num_rows), decoding.CHUNK):
            images = old.slice(start, decoding.CHUNK), new.slice(start, decoding.CHUNK)
            yield _landed(comparison, decoder, op, images, position, number)


def _landed(
    comparison: Comparison,
    decoder: SourceDecoder,
    op: str,
    rows: tuple[pa.Table, pa.Table],
    position: Iterator[int],
    number: int,
) -> pa.Table:
    """Return changes of one kind as rows of change_events, which name file and line of the extract.

    rows: before and after the change; either may have none.
    """
    before, after = rows
    images = list(zip_longest(_images(comparison.table, before), _images(comparison.table, after)))
    size = len(images)
    lines = [next(position) for _ in images]
    message, table = comparison.transaction.message, comparison.table.name
    messages = [
        message(table, op, number * LINES_PER_FILE + line, before=old, after=new)
        for line, (old, new) in zip(lines, images, strict=True)
    ]
    events = comparison.transaction.landed(decoder, messages, Task(number, names.LOAD, "", 0), lines)
    coordinates: dict[str, AnyArray] = {"file": pa.nulls(size, pa.string()), "line": pa.nulls(size, pa.int64())}
    if after.num_rows:
        paths = pa.array([file.path for file in comparison.files], pa.string())
        coordinates = {
            "file": paths.take(after.column(FILE).combine_chunks()),
            "line": after.column(LINE).combine_chunks(),
        }
    for name, values in coordinates.items():
        events = events.set_column(events.schema.get_field_index(name), events.schema.field(name), values)
    return events


def _images(table: Table, rows: pa.Table) -> list[bytes]:
    """Return whole images as JSON objects: every declared column by its source's name."""
    if not rows.num_rows:
        return []
    columns = [rows.column(column.name).combine_chunks() for column in table.columns]
    return as_json([column.source for column in table.columns], columns)
