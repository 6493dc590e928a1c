"""The sources that values come from: current rows, images after changes, and images before; values are only moved."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, AnyColumn, Booleans, Integers

WHOLE = ("T", "C")
"""Operations on all rows of a table at once: truncates and column nullings."""
WIDE: dict[pa.DataType, pa.DataType] = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
PLAIN_BYTES = 2**31 - 1
"""The most bytes in one array of plain text or binary; to take from several arrays, Arrow joins them."""


@dataclass(frozen=True)
class Images:
    """The declared columns of rows and changes under one numbering of sources.

    The sources are the rows, then the changes' images after, then their images before. A negative source is null.
    """

    _rows: pa.Table
    _changes: pa.Table
    key: tuple[str, ...]
    plain: tuple[str, ...]
    """The declared columns that are not part of the key."""

    @classmethod
    def of(cls, rows: pa.Table, changes: pa.Table, key: Sequence[str], columns: Sequence[str]) -> "Images":
        """Return the images of the declared columns; their types are those of the rows."""
        return cls(rows, changes, tuple(key), tuple(name for name in columns if name not in key))

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return self._rows.num_rows

    @property
    def changes(self) -> int:
        """Return how many changes there are."""
        return self._changes.num_rows

    def type_of(self, name: str) -> pa.DataType:
        """Return the type of a column."""
        kind: pa.DataType = self._rows.schema.field(name).type
        return kind

    def after(self, name: str) -> AnyColumn:
        """Return a column of the images after; a key column that an update leaves out comes from the image before."""
        column = _as(self._changes.column(name), self.type_of(name))
        return pc.coalesce(column, self.before(name)) if name in self.key and column.null_count else column

    def before(self, name: str) -> AnyColumn:
        """Return a column of the images before; a column of txloom, which no image has, is null.

        A key column that an image before leaves out comes from the image after, because a source may send only the
        columns that changed.
        """
        image = self._changes.column("_txloom_before")
        if image.type.get_field_index(name) < 0:
            # pyarrow takes any type here, the stubs only known ones.
            nulls: AnyArray = pa.nulls(self.changes, self.type_of(name))  # type: ignore[call-overload]
            return pa.chunked_array([nulls])
        column = _as(pc.struct_field(image, name), self.type_of(name))
        if name in self.key and column.null_count:
            return pc.coalesce(column, _as(self._changes.column(name), self.type_of(name)))
        return column

    def is_given(self, name: str) -> AnyColumn:
        """Return a column of the rows, then of the changes."""
        chunks = [*self._rows.column(name).chunks, *self.after(name).chunks]
        column: AnyColumn = pa.chunked_array(chunks, self.type_of(name))  # type: ignore[call-overload]  # as above
        return column

    def lacks(self, name: str) -> Booleans:
        """Return which changes lack a value of a column; truncates and column nullings never do."""
        whole = pc.is_in(self._changes.column("_txloom_op"), value_set=pa.array(WHOLE))
        return pc.and_(pc.is_null(self.after(name)), pc.invert(whole))

    def filled(self, name: str) -> npt.NDArray[np.bool_]:
        """Return which sources have a value of a column."""
        parts = (self.is_given(name), self.before(name))
        return np.concatenate([pc.is_valid(part).to_numpy() for part in parts])

    def take(self, name: str, sources: npt.NDArray[np.int64]) -> AnyColumn:
        """Return a column's values from some sources."""
        values = self.is_given(name)
        if len(sources) and sources.max() >= self.rows + self.changes:
            values = pa.chunked_array([*values.chunks, *self.before(name).chunks], values.type)
        return _take(values, pa.array(sources, pa.int64(), mask=sources < 0))


def _as(column: AnyColumn, kind: pa.DataType) -> AnyColumn:
    return column if column.type == kind else column.cast(kind)


def _take(values: AnyColumn, indices: Integers) -> AnyColumn:
    """Take values, in pieces where text is too long in total for one array."""
    if values.type not in WIDE or values.nbytes <= PLAIN_BYTES:
        return values.take(indices)
    whole = cast("pa.LargeStringArray | pa.LargeBinaryArray", values.cast(WIDE[values.type]).combine_chunks())
    ends = np.cumsum(pc.binary_length(whole).take(indices).fill_null(0).to_numpy())
    cuts = np.flatnonzero(np.diff(ends // (PLAIN_BYTES // 2))) + 1
    pieces = zip([0, *cuts], [*cuts, len(indices)], strict=True)
    return pa.chunked_array([whole.take(indices[start:end]).cast(values.type) for start, end in pieces], values.type)
