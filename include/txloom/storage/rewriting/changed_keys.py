"""The keys of a merge's changes: which files, and which of their rows, have one of them."""

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, AnyColumn
from txloom.storage.rewriting.table_files import TableFile, comparable, has_order

MICROS_LOST = 1_000
"""Spark cuts the bounds of times off behind the millisecond."""


@dataclass(frozen=True)
class Values:
    """Distinct values of a key column, in order where their type has one that the bounds of a file follow."""

    array: AnyArray
    order: "list[str] | npt.NDArray[np.int64] | None"
    """The values as bounds have them (`TableFile`); None: bounds say nothing."""

    @classmethod
    def of(cls, parts: Iterable[AnyArray], kind: pa.DataType) -> "Values":
        """Return the distinct values of some arrays of one type, without null."""
        column: AnyColumn = pa.chunked_array(list(parts), kind)  # type: ignore[call-overload]  # the stubs know no "any"
        distinct = cast("AnyArray", column.unique()).drop_null()
        if not has_order(kind):
            return cls(distinct, None)
        ordered = distinct.take(pc.array_sort_indices(distinct))
        return cls(ordered, comparable(ordered))

    def between(self, bounds: tuple[Any, Any] | None) -> AnyArray:
        """Return the values that may lie between two bounds; all of them where there are no bounds."""
        if self.order is None or bounds is None:
            return self.array
        lowest, highest = bounds
        if pa.types.is_timestamp(self.array.type):
            highest += MICROS_LOST
        if isinstance(self.order, list):
            first, last = bisect.bisect_left(self.order, lowest), bisect.bisect_right(self.order, highest)
        else:
            first, last = np.searchsorted(self.order, lowest), np.searchsorted(self.order, highest, "right")
        return self.array.slice(int(first), max(int(last - first), 0))

    def near(self, column: AnyArray) -> AnyArray:
        """Return the values that may be among those of a column, so that no table of all of them is made each time."""
        if self.order is None or len(self.array) <= len(column) or column.null_count == len(column):
            return self.array
        extent = pc.min_max(column)
        lowest, highest = comparable(pa.array([extent["min"], extent["max"]], column.type))
        return self.between((lowest, highest))


@dataclass(frozen=True)
class ChangedKeys:
    """The rows that a merge may change.

    Args:
        values: for each key column the values that changed keys have in it, before or after.
        filled: rows with a value of one of these columns may change too.
        everything: all rows may change.
    """

    values: Mapping[str, Values]
    filled: Sequence[str] = ()
    everything: bool = False
    columns: Sequence[str] = field(init=False)
    """The columns that decide on a row."""

    def __post_init__(self) -> None:
        """Name the columns once."""
        object.__setattr__(self, "columns", list(dict.fromkeys([*self.values, *self.filled])))

    @classmethod
    def of(cls, keys: pa.Table) -> "ChangedKeys":
        """Return the rows with one of some keys, in columns of these names."""
        columns: dict[str, AnyArray] = {name: keys.column(name).combine_chunks() for name in keys.column_names}
        return cls({name: Values.of([column], column.type) for name, column in columns.items()})

    def may_be_in(self, file: TableFile) -> bool:
        """Return whether the bounds of a file allow that it has a row that may change."""
        if self.everything or self.filled:
            return True
        named = [len(values.between(file.bounds.get(name))) > 0 for name, values in self.values.items()]
        return bool(named) and all(named)

    def among(self, rows: pa.Table) -> pa.BooleanArray:
        """Return which rows may change: all that do are among them.

        rows: with the columns `columns`.
        """
        if self.everything:
            return pa.array(np.ones(rows.num_rows, np.bool_), pa.bool_())
        named = [self._has_value(name, rows) for name in self.values]
        chosen = reduce(pc.and_, named) if named else pa.array(np.zeros(rows.num_rows, np.bool_), pa.bool_())
        filled = [pc.is_valid(rows.column(name).combine_chunks()) for name in self.filled]
        return reduce(pc.or_, filled, chosen)

    def _has_value(self, name: str, rows: pa.Table) -> pa.BooleanArray:
        column: AnyArray = rows.column(name).combine_chunks()
        return pc.is_in(column, value_set=self.values[name].near(column))
