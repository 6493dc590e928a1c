"""The partition that a row lies in: the value of a column, or its year, month or day."""

from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyColumn, AnyValues, Texts

NO_NAMES = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts that Delta cannot distinguish from null in a partition's name; their rows lie in the partition of null."""
KINDS: dict[str, pa.DataType] = {"year": pa.int32(), "month": pa.string(), "day": pa.date32()}


def kind_of(column: pa.DataType, unit: str | None) -> pa.DataType:
    """Return the type of the partition values of a column, or of a unit (year, month, day) of it."""
    return KINDS[unit] if unit else column


def partition_of(values: AnyColumn, unit: str | None) -> AnyColumn:
    """Return the partition of each value; that of null is null.

    >>> days = pa.chunked_array([pa.array([0, 364, -1, None], pa.date32())])
    >>> partition_of(days, "year").to_pylist(), partition_of(days, "month").to_pylist()
    ([1970, 1970, 1969, None], ['1970-01', '1970-12', '1969-12', None])
    """
    if unit == "year":
        return cast("AnyColumn", pc.year(values)).cast(KINDS[unit])
    if unit == "month":
        year, month = (_padded(part(values), width) for part, width in ((pc.year, 4), (pc.month, 2)))
        # The stubs do not know that a scalar may stand among the texts.
        months: AnyColumn = pc.binary_join_element_wise(year, month, "-")  # type: ignore[call-overload]
        return months
    if unit == "day":
        return values if pa.types.is_date(values.type) else pc.floor_temporal(values, unit="day").cast(KINDS[unit])
    if pa.types.is_string(values.type):
        named: AnyColumn = pc.if_else(pc.is_in(values, pa.array(NO_NAMES)), pa.scalar(None, pa.string()), values)
        return named
    return values


def _padded(numbers: AnyValues, width: int) -> Texts:
    return pc.utf8_lpad(numbers.cast(pa.string()), width, "0")
