"""Hashes of typed rows: equal for equal values, and for no others.

Values are written as bytes so that different rows differ: each value with its length before it, null as a mark that no
value begins with, a decimal with its declared scale. BLAKE2b reduces these bytes to 128 bits. Among ten thousand
million rows two different ones share a hash with a chance below one in 10^18, and such rows cannot be constructed, so
equal hashes count as equal rows.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, Lists

BITS = 128
ROWS = 20_000
"""How many rows are converted to bytes at once."""
NULL = pa.scalar(b"-", pa.binary())
NOTHING, COLON = pa.scalar(b"", pa.binary()), pa.scalar(b":", pa.binary())


def row_hashes(rows: pa.Table, columns: Sequence[str]) -> pa.BinaryArray:
    """Return a hash of some columns for each row.

    >>> pairs = pa.table({"a": ["ab", "a", None], "b": ["c", "bc", "c"]})
    >>> len(set(row_hashes(pairs, ["a", "b"]).to_pylist()))
    3
    """
    hashes: list[bytes] = []
    for start in range(0, rows.num_rows, ROWS):
        texts = cast("list[bytes]", written(rows.slice(start, ROWS), columns).to_pylist())
        hashes += [blake2b(text, digest_size=BITS // 8).digest() for text in texts]
    return pa.array(hashes, pa.binary())


def written(rows: pa.Table, columns: Sequence[str]) -> pa.BinaryArray:
    """Return each row as bytes that no row with other values has.

    >>> written(pa.table({"a": ["x", ""], "b": [None, 12]}), ["a", "b"]).to_pylist()
    [b'1:x-', b'0:2:12']
    """
    parts = [measured(_bytes(rows.column(name).combine_chunks())) for name in columns]
    if not parts:
        return pa.array([b""] * rows.num_rows, pa.binary())
    return joined(parts)


def joined(parts: Sequence[pa.BinaryArray]) -> pa.BinaryArray:
    """Return what stands side by side in one row after the other."""
    # The stubs do not know that a scalar may stand among the arrays.
    whole: pa.BinaryArray = pc.binary_join_element_wise(*parts, NOTHING)  # type: ignore[call-overload]
    return whole


def measured(values: pa.BinaryArray, null: "pa.BinaryScalar" = NULL) -> pa.BinaryArray:
    """Return values with their length before them; null becomes a mark that no length begins with."""
    lengths = pc.binary_length(values).cast(pa.string()).cast(pa.binary())
    known = pc.binary_join_element_wise(lengths, values, COLON)  # type: ignore[call-overload]  # as above
    return cast("pa.BinaryArray", pc.coalesce(known, null))


def _bytes(values: AnyArray) -> pa.BinaryArray:
    """Return values of one type as bytes, equal for equal values only; null for null."""
    kind = values.type
    if pa.types.is_binary(kind):
        return cast("pa.BinaryArray", values)
    if pa.types.is_list(kind):
        lists = cast("Lists", values)
        return lists_of(lists, measured(_bytes(lists.flatten())))
    if pa.types.is_struct(kind):
        return _structs(cast("pa.StructArray", values))
    if pa.types.is_floating(kind):
        values = _bits(values)
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_date(kind):
        values = values.cast(pa.int32())
    return cast("pa.BinaryArray", values.cast(pa.string()).cast(pa.binary()))


def lists_of(values: Lists, elements: pa.BinaryArray) -> pa.BinaryArray:
    """Return lists as their elements one after the other; elements: of all lists, each with its length."""
    lengths = pc.list_value_length(values).fill_null(0)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]), pa.int32())
    texts = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), NOTHING)
    whole: pa.BinaryArray = pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.binary()))
    return whole


def _structs(values: pa.StructArray) -> pa.BinaryArray:
    """Return structs as their fields one after the other, each with its length."""
    parts = [measured(_bytes(pc.struct_field(values, [number]))) for number in range(values.type.num_fields)]
    whole: pa.BinaryArray = pc.if_else(values.is_valid(), joined(parts), pa.scalar(None, pa.binary()))
    return whole


def _bits(values: AnyArray) -> pa.Int64Array:
    """Return the bits of floating-point numbers; both zeros have the same bits, and so have all NaNs."""
    wide = values.cast(pa.float64())
    numbers = wide.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    bits: pa.Int64Array = pc.if_else(values.is_valid(), pa.array(numbers.view(np.int64)), pa.scalar(None, pa.int64()))
    return bits
