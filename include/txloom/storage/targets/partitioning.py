"""Partitions of current tables: the column that they are named by, and which of them a merge has to read.

Where no declared column can name a partition, txloom adds a column whose comment says how its values are computed. One
Arrow function computes them wherever rows are made.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from txloom.config import names
from txloom.config.models.partitions import Partition
from txloom.config.models.pipeline import Mirror, Table
from txloom.current.partitions import kind_of, partition_of
from txloom.events.values.scalars import arrow_type

COMMENT = b"comment"


@dataclass(frozen=True)
class Partitions:
    """How a current table is partitioned."""

    declared: Partition
    kind: pa.DataType
    """The type of the partition column."""
    column: str
    """The partition column."""

    @classmethod
    def of(cls, table: Table, mirror: Mirror | None) -> "Partitions | None":
        """Return the partitions of a mirror's current table; None where it declares none, or without a mirror."""
        declared = mirror.partition_by if mirror is not None else None
        if declared is None:
            return None
        source = table.column(declared.column).type
        column = names.PARTITION if declared.is_added(source.kind) else declared.column
        return cls(declared, kind_of(arrow_type(source), declared.unit), column)

    @property
    def field(self) -> "pa.Field[Any] | None":
        """Return the partition column that txloom adds; None where a declared column names the partitions."""
        if self.column != names.PARTITION:
            return None
        return pa.field(self.column, self.kind, metadata={COMMENT: str(self.declared).encode()})

    @property
    def ddl(self) -> str:
        """Return the added column as the end of a Spark DDL; "" where there is none."""
        kinds = {pa.int32(): "int", pa.string(): "string", pa.date32(): "date"}
        return f", {self.column} {kinds[self.kind]}" if self.field is not None else ""

    def filled(self, rows: pa.Table) -> pa.Table:
        """Return rows with the added column filled; unchanged where there is none."""
        if self.field is None:
            return rows
        values = partition_of(rows.column(self.declared.column), self.declared.unit)
        return rows.append_column(pa.field(self.column, self.kind), values)
