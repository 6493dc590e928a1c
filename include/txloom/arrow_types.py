"""Names for the types of Arrow values, because pyarrow's classes take the type of their elements in annotations only.

While the program runs, each name is a class of pyarrow, or a union of two. Where a column has a fixed type that has a
class of its own, such as `pa.Int64Array`, that class is used instead.

AnyArray: an array of any type. AnyColumn: a column of a table, that is one array or several in a row, of any type.
AnyValues: either of them, and `Booleans` and `Texts` either of them with elements of that type. AnyScalar: one value of
any type. Integers: an array of 64-bit integers. Lists: an array of lists of any type. Counts: an array of maps from
text to 64-bit integers. Decimals: the type of numbers with a declared scale.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyarrow.lib import Int64Type, StringType

    AnyScalar: TypeAlias = pa.Scalar[Any]
    AnyArray: TypeAlias = pa.Array[Any]
    AnyColumn: TypeAlias = pa.ChunkedArray[Any]
    AnyValues: TypeAlias = pa.Array[Any] | pa.ChunkedArray[Any]
    Booleans: TypeAlias = pa.Array[pa.BooleanScalar] | pa.ChunkedArray[pa.BooleanScalar]
    Texts: TypeAlias = pa.Array[pa.Scalar[StringType]] | pa.ChunkedArray[pa.Scalar[StringType]]
    Integers: TypeAlias = pa.Array[pa.Scalar[Int64Type]]
    Lists: TypeAlias = pa.ListArray[Any]
    Counts: TypeAlias = pa.MapArray[StringType, Int64Type]
    Decimals: TypeAlias = pa.Decimal128Type[Any, Any]
else:
    AnyScalar, AnyArray, AnyColumn = pa.Scalar, pa.Array, pa.ChunkedArray
    AnyValues = Booleans = Texts = pa.Array | pa.ChunkedArray
    Integers, Lists, Counts, Decimals = pa.Int64Array, pa.ListArray, pa.MapArray, pa.Decimal128Type
