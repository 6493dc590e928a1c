"""Hashes of typed rows: equal for equal values, and for no others.

Values are written as bytes so that different rows differ: each value with its length before it, null as a mark that no
value begins with, a decimal with its declared scale. BLAKE2b reduces these bytes to 128 bits. Among ten thousand
million rows two different ones share a hash with a chance below one in 10^18, and such rows cannot be constructed, so
equal hashes count as equal rows.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BITS = 128
ROWS = 20_000
"""How many rows are converted to bytes at once."""
NULL = pa.scalar(b"-", pa.binary())
NOTHING, COLON = pa.scalar(b"", pa.binary()), pa.scalar(b":", pa.binary())


def row_hashes(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Return a hash of some columns for each row.

    >>> pairs = pa.table({"a": ["ab", "a", None], "b": ["c", "bc", "c"]})
    >>> len(set(row_hashes(pairs, ["a", "b"]).to_pylist()))
    3
    """
    hashes: list[bytes] = []
    for start in range(0, rows.num_rows, ROWS):
        texts = written(rows.slice(start, ROWS), columns).to_pylist()
        hashes += [blake2b(text, digest_size=BITS // 8).digest() for text in texts]
    return pa.array(hashes, pa.binary())


def written(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Return each row as bytes that no row with other values has.

    >>> written(pa.table({"a": ["x", ""], "b": [None, 12]}), ["a", "b"]).to_pylist()
    [b'1:x-', b'0:2:12']
    """
    parts = [_measured(_bytes(rows.column(name).combine_chunks())) for name in columns]
    if not parts:
        return pa.array([b""] * rows.num_rows, pa.binary())
    return pc.binary_join_element_wise(*parts, NOTHING)


def _measured(values: pa.Array) -> pa.Array:
    """Return values with their length before them; null becomes a mark that no value begins with."""
    lengths = pc.binary_length(values).cast(pa.string()).cast(pa.binary())
    return pc.coalesce(pc.binary_join_element_wise(lengths, values, COLON), NULL)


def _bytes(values: pa.Array) -> pa.Array:
    """Return values of one type as bytes, equal for equal values only; null for null."""
    kind = values.type
    if pa.types.is_binary(kind):
        return values
    if pa.types.is_list(kind):
        return _lists(values)
    if pa.types.is_struct(kind):
        return _structs(values)
    if pa.types.is_floating(kind):
        values = _bits(values)
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_date(kind):
        values = values.cast(pa.int32())
    return values.cast(pa.string()).cast(pa.binary())


def _lists(values: pa.Array) -> pa.Array:
    """Return lists as their elements one after the other, each with its length."""
    elements = _measured(_bytes(values.flatten()))
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), NOTHING)
    return pc.if_else(values.is_valid(), joined, pa.scalar(None, pa.binary()))


def _structs(values: pa.Array) -> pa.Array:
    """Return structs as their fields one after the other, each with its length."""
    parts = [_measured(_bytes(pc.struct_field(values, [number]))) for number in range(values.type.num_fields)]
    return pc.if_else(values.is_valid(), pc.binary_join_element_wise(*parts, NOTHING), pa.scalar(None, pa.binary()))


def _bits(values: pa.Array) -> pa.Array:
    """Return the bits of floating-point numbers; both zeros have the same bits, and so have all NaNs."""
    wide = values.cast(pa.float64())
    numbers = pc.fill_null(wide, 0.0).to_numpy(zero_copy_only=False) + 0.0
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    return pc.if_else(values.is_valid(), pa.array(numbers.view(np.int64)), pa.scalar(None, pa.int64()))
