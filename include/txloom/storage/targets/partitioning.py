"""Partitions of current tables: which column names them, and in which of them a merge has to look.

Where no declared column can name a partition, the table has one of txloom's own that says, as its comment, what its
values are. It is filled by the same Arrow function wherever rows are computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.config.models.partitions import Partition
from txloom.config.models.pipeline import Mirror, Table
from txloom.current.partitions import kind_of, partition_of
from txloom.events.values.scalars import arrow_type
from txloom.storage.delta.partition_pruning import Within, within

COMMENT = b"comment"


@dataclass(frozen=True)
class Partitions:
    """How a current table is partitioned."""

    declared: Partition
    kind: pa.DataType
    """The type of what names the partitions."""
    column: str
    """The column that names them."""

    @classmethod
    def of(cls, table: Table, mirror: Mirror | None) -> "Partitions | None":
        """Return the partitions of a mirror; None where it declares none."""
        declared = mirror.partition_by if mirror is not None else None
        if declared is None:
            return None
        source = table.column(declared.column).type
        column = names.PARTITION if declared.is_added(source.kind) else declared.column
        return cls(declared, kind_of(arrow_type(source), declared.unit), column)

    @property
    def field(self) -> "pa.Field[Any] | None":
        """Return the column of txloom's own that names the partitions; None where a declared one does."""
        if self.column != names.PARTITION:
            return None
        return pa.field(self.column, self.kind, metadata={COMMENT: str(self.declared).encode()})

    @property
    def ddl(self) -> str:
        """Return that column as the end of a Spark DDL."""
        kinds = {pa.int32(): "int", pa.string(): "string", pa.date32(): "date"}
        return f", {self.column} {kinds[self.kind]}" if self.field is not None else ""

    def filled(self, rows: pa.Table) -> pa.Table:
        """Return rows with the column that names their partitions."""
        if self.field is None:
            return rows
        values = partition_of(rows.column(self.declared.column), self.declared.unit)
        return rows.append_column(pa.field(self.column, self.kind), values)


def concerned(partitions: Partitions, key: Sequence[str], stored: pa.Table, effects: pa.Table) -> Within | None:
    """Return the partitions in which keys of effects lie or will lie; stored: every row of those keys, maybe others.

    A change seldom tells where its row lay before; the rows that it was folded into do.
    """
    keys = effects.select(list(key))
    old = stored.select(list(dict.fromkeys([*key, partitions.column])))
    old_partitions = old.join(keys, keys=list(key), join_type="left semi").column(partitions.column)
    new = effects.filter(pc.invert(effects.column("_txloom_deleted"))).column(partitions.column)
    return within(partitions.column, [*old_partitions.unique().to_pylist(), *new.unique().to_pylist()])
