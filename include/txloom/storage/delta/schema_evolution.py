"""Bring Delta tables to their declared schema: add columns, widen types, read undeclared text as a declared type."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from txloom.config.models.column_types import ColumnType
from txloom.errors import ConfigurationError
from txloom.events.images.single_message import json_elements
from txloom.events.values.scalars import arrow_type, reader
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.committing import commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.sql import has_exact_bounds
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.stores.delta_tables import is_table, table_at

BOUNDED = "delta.dataSkippingStatsColumns"
"""The property that lists the columns of which files have bounds."""
WHOLE_DIGITS: dict[pa.DataType, int] = {pa.int32(): 10, pa.int64(): 19}
"""The most decimal digits of an integer type's values."""
DECLARED: dict[pa.DataType, ColumnType] = {
    arrow_type(ColumnType(kind)): ColumnType(kind) for kind in ("long", "int", "double", "float", "boolean")
}
DECLARED |= {arrow_type(ColumnType(kind)): ColumnType(kind) for kind in ("date", "timestamp", "timestamptz", "binary")}


OTHER_PARTITIONS = (
    "declare what it was, or move {folder} away, and the next merge writes the table anew out of its history"
)
"""What to do where a table is partitioned by other columns than the declared ones; folder: that of the table."""


UNREADABLE = (ValueError, ArithmeticError, TypeError, RecursionError)
"""Errors of reading a text that is no value of a type."""


def ensure(
    path: str,
    schema: pa.Schema,
    properties: Mapping[str, str] | None = None,
    *,
    partition_by: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Create a table, or bring it to its declared schema: columns are added and types widened, no column is removed.

    A repeated call changes nothing.

    Args:
        path: the table's path.
        schema: the declared columns.
        properties: the properties with which the table is created.
        partition_by: the declared partition columns.
        metadata: the userMetadata of the first version.

    Raises:
        ConfigurationError: a declared type does not hold every value of the table, or the table is partitioned by other
            columns than the declared ones.
        LeaseTaken: another run holds the lease.
    """
    if not is_table(path):
        small_tables.ensure(path, schema, properties, partition_by=partition_by, metadata=metadata)
        return
    refuse_other_partitions(path, schema, partition_by)
    _forget_bounds(path, schema)
    has = arrow_tables.plain_schema(small_tables.schema_of(path))
    if lagging(path, schema):
        _rewrite(path, has, schema)
    elif any(field.name not in has.names or _lacks(has.field(field.name).type, field.type) for field in schema):
        table, carried = _carried(path)
        nothing = _with_kept(has, schema).empty_table()
        write_deltalake(table, nothing, mode="append", schema_mode="merge", commit_properties=carried)


def lagging(path: str, schema: pa.Schema) -> list[str]:
    """Return the declared columns that a table has with another type, [] where there is no table.

    `ensure` widens them, or refuses to.
    """
    if not is_table(path):
        return []
    has = arrow_tables.plain_schema(small_tables.schema_of(path))
    return [field.name for field in schema if field.name in has.names and not _holds(has.field(field.name), field)]


def refuse_other_partitions(path: str, schema: pa.Schema, partition_columns: Sequence[str]) -> None:
    """Raise ConfigurationError where an existing table is partitioned by other columns than the declared ones."""
    if (other := other_partitions(path, schema, partition_columns)) is not None:
        lie, say = other
        way_out = OTHER_PARTITIONS.format(folder="this folder")
        raise ConfigurationError(f"{path}: its rows lie by {lie}, but partition_by says {say}: {way_out}")


def other_partitions(path: str, schema: pa.Schema, partition_columns: Sequence[str]) -> tuple[str, str] | None:
    """Return by what an existing table is partitioned and by what it is declared to be; None where both are the same.

    Args:
        path: the table's path.
        schema: the declared columns.
        partition_columns: the declared partition columns.
    """
    known = small_tables.schema_of(path), opened(path).metadata().partition_columns
    lie, say = _partitions(*known), _partitions(schema, partition_columns)
    return None if lie == say else (lie, say)


def _forget_bounds(path: str, schema: pa.Schema) -> None:
    """Stop writing bounds of columns where they are not exact; an older version of txloom created tables with them."""
    table = opened(path)
    bounded = [name for name in table.metadata().configuration.get(BOUNDED, "").split(",") if name]
    kinds = {field.name: field.type for field in schema}
    exact = [name for name in bounded if has_exact_bounds(kinds.get(name.strip("`"), pa.int64()))]
    if exact and exact != bounded:
        opened_table, properties = _carried(path)
        opened_table.alter.set_table_properties({BOUNDED: ",".join(exact)}, commit_properties=properties)


def _partitions(schema: pa.Schema, columns: Sequence[str]) -> str:
    comments = [(schema.field(name).metadata or {}).get(b"comment", b"").decode() for name in columns]
    described = [f"{comment} ({name})" if comment else name for name, comment in zip(columns, comments, strict=True)]
    return ", ".join(described) or "nothing"


def _carried(path: str) -> tuple[DeltaTable, CommitProperties]:
    """Open a table for a commit that does not change its state; return it, and properties with its userMetadata."""
    table = FENCE.opened(path)
    return table, commit_properties(metadata=newest_metadata(path) or None)


def _holds(has: "pa.Field[Any]", declared: "pa.Field[Any]") -> bool:
    """Return whether a column has its declared type; a struct may have more or fewer fields than the declared one."""
    return _all_inside(has.type, declared.type, _is_same)


def _is_same(has: pa.DataType, declared: pa.DataType) -> bool:
    return bool(has == declared) or bool(pa.types.is_map(has))


def _all_inside(old: pa.DataType, new: pa.DataType, holds: Callable[[pa.DataType, pa.DataType], bool]) -> bool:
    """Return whether something holds of each pair of types inside structs and lists; of structs, the fields of both."""
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        both = {field.name for field in old} & {field.name for field in new}
        return all(_all_inside(old.field(name).type, new.field(name).type, holds) for name in both)
    if pa.types.is_list(old) and pa.types.is_list(new):
        return _all_inside(old.value_type, new.value_type, holds)
    return holds(old, new)


def _lacks(has: pa.DataType, declared: pa.DataType) -> bool:
    """Return whether a struct, or a list of structs, lacks fields that are declared."""
    if pa.types.is_struct(has) and pa.types.is_struct(declared):
        inside = {field.name: field.type for field in has}
        return any(field.name not in inside or _lacks(inside[field.name], field.type) for field in declared)
    return pa.types.is_list(has) and pa.types.is_list(declared) and _lacks(has.value_type, declared.value_type)


def _with_kept(has: pa.Schema, declared: pa.Schema) -> pa.Schema:
    """Return a declared schema whose structs keep the fields that they have and that it does not declare."""
    return pa.schema([each.with_type(_kept(has, each)) if each.name in has.names else each for each in declared])


def _kept(has: pa.Schema | pa.StructType, declared: "pa.Field[Any]") -> pa.DataType:
    return _with_kept_fields(has.field(declared.name).type, declared.type)


def _with_kept_fields(has: pa.DataType, declared: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(has) and pa.types.is_struct(declared):
        names = {each.name for each in declared}
        known = {each.name for each in has}
        kept = [each.with_type(_kept(has, each)) if each.name in known else each for each in declared]
        return pa.struct([*kept, *(each for each in has if each.name not in names)])
    if pa.types.is_list(has) and pa.types.is_list(declared):
        return pa.list_(_with_kept_fields(has.value_type, declared.value_type))
    return declared


def _rewrite(path: str, has: pa.Schema, declared: pa.Schema) -> None:
    """Rewrite all rows of a table with wider types, in one commit; earlier versions stay readable."""
    table, properties = _carried(path)
    extra = [field for field in has if field.name not in declared.names]
    schema = pa.schema([*_with_kept(has, declared), *extra])
    source = arrow_tables.batches({"t": table_at(path, version=table.version())}, "select * from t")
    refused = list[ConfigurationError]()

    def batches() -> Iterable[pa.RecordBatch]:
        for rows in source:
            try:
                columns = [_column(rows, field, path) for field in schema]
            except ConfigurationError as error:
                refused.append(error)
                raise
            yield from pa.Table.from_arrays(columns, schema=schema).to_batches()

    try:
        write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(schema, batches()),
            mode="overwrite",
            schema_mode="overwrite",
            partition_by=table.metadata().partition_columns or None,
            commit_properties=properties,
        )
    except DeltaError as error:
        raise (refused[0] if refused else error) from error


def _column(rows: pa.Table, field: "pa.Field[Any]", path: str) -> "pa.Array[Any]":
    if field.name not in rows.column_names:
        nulls: pa.Array[Any] = pa.nulls(rows.num_rows, field.type)
        return nulls
    return _widened(rows.column(field.name).combine_chunks(), field.type, f"{path}: column {field.name}")


def _widened(array: "pa.Array[Any]", kind: pa.DataType, where: str) -> "pa.Array[Any]":
    """Return values in a wider type; texts are read as values of it, structs and lists are widened inside.

    Raises ConfigurationError where the type does not hold all values of the old one, or a text is no value of it.
    """
    if pa.types.is_struct(kind) and isinstance(array, pa.StructArray):
        inside = {array.type.field(i).name: i for i in range(array.type.num_fields)}
        fields = [
            _widened(array.field(inside[field.name]), field.type, f"{where}.{field.name}")
            if field.name in inside
            else pa.nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and isinstance(array, pa.ListArray) and array.type != kind:
        values = _widened(array.values, kind.value_type, where)
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null())
    if array.type == kind:
        return array
    if pa.types.is_string(array.type):
        return _read(array, kind, where)
    if not _widens(array.type, kind):
        raise ConfigurationError(
            f"{where} is {describe_type(array.type)}, and the declared {describe_type(kind)} does not hold all of it: "
            f"declare {describe_type(array.type)}, or a type that holds all its values"
        )
    return array.cast(kind)


def find_alike(name: str, held: Iterable[str]) -> list[str]:
    """Return the names in `held` that differ from `name` only in case: Delta treats them as the same name."""
    return [each for each in held if each != name and each.casefold() == name.casefold()]


def can_become(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether `ensure` can give a column of a table another type; a text may still not be a value of it."""
    return _all_inside(old, new, _is_wider)


def _is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    if pa.types.is_string(old) and old != new:
        return _declared_type(new) is not None
    return bool(old == new) or _widens(old, new)


def describe_type(kind: pa.DataType) -> str:
    """Return the type of a column as a declaration names it; of a type that no declaration names, Arrow's name."""
    if pa.types.is_list(kind):
        return f"array<{describe_type(kind.value_type)}>"
    return str(_declared_type(kind) or kind)


def _declared_type(kind: pa.DataType) -> ColumnType | None:
    """Return the declared type that corresponds to an Arrow type; None: no declaration names such a type."""
    if pa.types.is_list(kind):
        element = _declared_type(kind.value_type)
        return ColumnType("array", element=element) if element is not None and element.element is None else None
    if pa.types.is_decimal(kind):
        return ColumnType("decimal", kind.precision, kind.scale)
    return ColumnType("string") if pa.types.is_string(kind) else DECLARED.get(kind)


def _widens(old: pa.DataType, new: pa.DataType) -> bool:
    if pa.types.is_decimal(new):
        whole = WHOLE_DIGITS.get(old)
        digits, scale = (whole, 0) if whole else (old.precision, old.scale) if pa.types.is_decimal(old) else (99, 0)
        return bool(new.scale >= scale and new.precision - new.scale >= digits - scale)
    wider: dict[pa.DataType, tuple[pa.DataType, ...]] = {
        pa.int32(): (pa.int64(), pa.float64()),
        pa.float32(): (pa.float64(),),
    }
    return new in wider.get(old, ())


def _read(texts: "pa.Array[Any]", kind: pa.DataType, where: str) -> "pa.Array[Any]":
    """Read the texts of an adopted, undeclared column as values of the type that was declared since."""
    declared = _declared_type(kind)
    if declared is None:
        raise ConfigurationError(f"{where} holds text, which cannot become {kind}")
    read, values = text_reader(declared), []
    for text in texts.to_pylist():
        try:
            values.append(None if text is None else read(text))
        except UNREADABLE as error:
            raise ConfigurationError(f"{where} holds {str(text)[:80]!r}, which cannot be read as {declared}") from error
    return pa.array(values, kind)


def text_reader(declared: ColumnType) -> Callable[[str], Any]:
    """Return the function that reads a text of a history as a declared type; it raises one of UNREADABLE."""
    read = reader(declared)
    if declared.element is None:
        return read
    return lambda text: read(json_elements(text) if text.startswith("[") else text)
