"""One commit to a Delta table that takes rows out of their files and adds others in new files."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema
from deltalake.transaction import AddAction, RemoveAction

from txloom.storage.delta import data_files
from txloom.storage.delta.committing import commit_properties
from txloom.storage.delta.data_files import DataFile, Shape
from txloom.storage.rewriting.changed_keys import ChangedKeys
from txloom.storage.rewriting.table_files import NoFiles, TableFile, TableFiles

FILE_BYTES = 128 << 20
"""Bytes of Arrow rows from which on a further file is written."""


@dataclass
class Rewrite:
    """A commit in the making: nothing of it is seen before `commit`, and files of one that is given up are vacuumed.

    Args:
        files: the table as it is before; without any file where the commit replaces all rows.
        key: the columns by which new files are ordered.
        shape: the schema that the table gets with the commit, which replaces all its rows; None: others stay.
    """

    files: TableFiles
    key: Sequence[str]
    shape: Shape | None = None
    _removed: list[TableFile] = field(default_factory=list)
    _added: list[DataFile] = field(default_factory=list)

    @classmethod
    def of(cls, path: str, key: Sequence[str], shape: Shape | None = None) -> "Rewrite":
        """Begin a commit to the newest version of a table.

        Args:
            path: the table's path.
            key: the columns by which new files are ordered.
            shape: where the commit replaces all rows, the schema that the table gets with it.

        Raises:
            LeaseTaken: a later run stamped the table.
            TableNotFoundError: there is no table.
        """
        files = TableFiles.open(path) if shape is None else NoFiles.of(path, shape.schema)
        return cls(files, key, shape)

    def likely(self, keys: ChangedKeys) -> list[TableFile]:
        """Return the files that may hold a row that may change, as their bounds say."""
        return [file for file in self.files.files if keys.may_be_in(file)]

    @property
    def added(self) -> list[DataFile]:
        """Return the files that are written for it so far."""
        return list(self._added)

    def adopt(self, files: Iterable[DataFile]) -> None:
        """Take over files of the table that another process has written for it."""
        self._added += files

    def remove(self, files: Iterable[TableFile]) -> None:
        """Remove files, of whose rows all that stay are in adopted ones."""
        self._removed += files

    def after(self) -> list[TableFile]:
        """Return the files that the table has after the commit; those written for it so far say no bounds."""
        removed = {file.path for file in self._removed}
        kinds = {name: self.files.schema.field(name).type for name in self.files.partition_columns}
        written = [
            TableFile(
                each.path, each.size, {name: _typed(each.partition[name], kind) for name, kind in kinds.items()}, {}
            )
            for each in self._added
        ]
        return [file for file in self.files.files if file.path not in removed] + written

    def take_out(self, held: Sequence[TableFile], keys: ChangedKeys) -> Iterator[pa.Table]:
        """Yield, file by file, the rows that may change; what else the files hold is written into others at once."""
        for file in held:
            rows = self.files.read(file)
            chosen = keys.among(rows)
            self._removed.append(file)
            self.add(rows.filter(pc.invert(chosen)), ordered=True)
            yield rows.filter(chosen)

    def add(self, rows: pa.Table, *, ordered: bool = False) -> None:
        """Write rows into new files, a partition in each; ordered: they are in the order of the key already."""
        if not rows.num_rows:
            return
        for partition, of_partition in _by_partition(rows, self.files.partition_columns):
            sorted_rows = of_partition if ordered else of_partition.sort_by([(name, "ascending") for name in self.key])
            for part in _parts(sorted_rows):
                table, path = self.files.table, self.files.path
                self._added.append(data_files.write_file_of(part, table, path, partition, self.shape))

    def commit(self, metadata: Mapping[str, Any] | None, once: tuple[str, int] | None = None) -> None:
        """Make the commit, also where it changes no row.

        Args:
            metadata: its userMetadata; None: it has none.
            once: a write id and a number, which the table has then.

        Raises:
            LeaseTaken: another run holds the lease.
            CommitFailedError: another commit came since the table was opened (`txloom.storage.delta.retry`).
        """
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(file.path, True, now, file.size, data_files.partition_texts(file.partition))
            for file in self._removed
        ]
        actions += data_files.added(self._added)
        table = self.files.table
        table.create_write_transaction(
            actions,
            "append" if self.shape is None else "overwrite",
            table.schema() if self.shape is None else Schema.from_arrow(self.shape.schema),
            list(self.files.partition_columns),
            commit_properties=commit_properties(once=[once] if once else (), metadata=metadata, only_next=True),
        )


def _typed(text: str | None, kind: pa.DataType) -> Any:
    """Return a partition's value that the log has as text."""
    return pa.scalar(text, pa.string()).cast(kind).as_py()


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield rows in parts of about FILE_BYTES each."""
    count = max(1, round(rows.nbytes / FILE_BYTES))
    size = -(-rows.num_rows // count)
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def _by_partition(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """Yield rows partition by partition, with the value of each partition column."""
    if not columns:
        yield {}, rows
        return
    (column,) = columns
    for value in rows.column(column).unique().to_pylist():
        values = rows.column(column)
        is_there = pc.is_null(values) if value is None else pc.equal(values, pa.scalar(value, values.type))
        yield {column: value}, rows.filter(is_there)
