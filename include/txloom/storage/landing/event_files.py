"""Parts of the data files of change_events that hold the events of one large transaction, read one by one in tasks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq

from txloom.storage.paths import TablePaths
from txloom.storage.rewriting.changed_keys import ChangedKeys, Values
from txloom.storage.rewriting.table_files import TableFile, TableFiles


@dataclass(frozen=True)
class FilePart:
    """Neighbouring row groups of a data file of change_events.

    Args:
        file: the file.
        groups: the numbers of its row groups.
    """

    file: TableFile
    groups: range


def parts_of(paths: TablePaths, tx: int, landings: Sequence[int], rows: int) -> list[FilePart]:
    """Return the parts of files that hold all events of a transaction; no two share a row.

    Args:
        paths: where the tables are.
        tx: the transaction's hash.
        landings: the landings that have its events.
        rows: about how many rows a part has at most; a row group is not split.
    """
    table, parts = TableFiles.open(paths.change_events), list[FilePart]()
    whole = {"tx": [tx], "landing": landings}
    events = ChangedKeys({name: Values.of([pa.array(of, pa.int64())], pa.int64()) for name, of in whole.items()})
    for file in filter(events.may_be_in, table.files):
        with table.opened(file) as opened:
            parts += [FilePart(file, groups) for groups in _groups(opened.metadata, tx, rows)]
    return parts


def events_in(paths: TablePaths, part: FilePart, columns: Sequence[str]) -> pa.Table:
    """Return all rows of a part that are still there, also those of other transactions."""
    table = TableFiles.open(paths.change_events)
    schema = pa.schema([table.schema.field(name) for name in columns])
    with table.opened(part.file) as opened:
        stored = [name for name in columns if name in opened.schema_arrow.names]
        rows = opened.read_row_groups(list(part.groups), stored)
        start = sum(opened.metadata.row_group(number).num_rows for number in range(part.groups.start))
    rows, kept = table.conformed(rows, part.file, schema, rows.num_rows), part.file.kept
    return rows if kept is None else rows.filter(kept.slice(start, rows.num_rows))


def _groups(metadata: pq.FileMetaData, tx: int, rows: int) -> Iterator[range]:
    """Yield the row groups that may hold a transaction, in runs of about so many rows."""
    column = metadata.schema.names.index("tx")
    first, size = None, 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        bounds = group.column(column).statistics
        is_known = bounds is not None and bounds.has_min_max
        lowest, highest = (cast("int", bounds.min), cast("int", bounds.max)) if bounds and is_known else (tx, tx)
        holds = lowest <= tx <= highest
        if first is not None and (not holds or size + group.num_rows > rows):
            yield range(first, number)
            first, size = None, 0
        if holds:
            first, size = number if first is None else first, size + group.num_rows
    if first is not None:
        yield range(first, metadata.num_row_groups)
