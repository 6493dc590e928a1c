"""Rows are brought into a schema: parts that are cut out of others keep their values, validity and offsets."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from txloom.arrow_types import AnyArray
from txloom.storage.delta import arrow_tables

IMAGE = pa.struct([("a", pa.list_(pa.string())), ("n", pa.int64())])
SCHEMA = pa.schema(
    [
        ("names", pa.list_(pa.string())),
        ("image", IMAGE),
        ("changes", pa.list_(pa.struct([("pos", pa.int64()), ("before", IMAGE)]))),
    ]
)
SIZES = st.integers(0, 9)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Draw values of a type; few are null, so that many arrays have a validity bitmap but no null."""
    if pa.types.is_list(kind):
        drawn: st.SearchStrategy[Any] = st.lists(values(kind.value_type), max_size=2)
    elif pa.types.is_struct(kind):
        drawn = st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    else:
        drawn = st.just("x") if pa.types.is_string(kind) else st.just(1)
    return st.one_of(drawn, drawn, drawn, st.none())


PARTS = st.tuples(
    st.lists(st.fixed_dictionaries({field.name: values(field.type) for field in SCHEMA}), min_size=1, max_size=9),
    SIZES,
    SIZES,
)


@given(st.lists(PARTS, min_size=1, max_size=3), st.lists(st.booleans(), min_size=9, max_size=9))
def test_parts_of_rows_keep_their_values_validity_and_offsets(
    drawn: list[tuple[list[dict[str, Any]], int, int]], chosen: list[bool]
) -> None:
    parts = [reordered(rows, at, size) for rows, at, size in drawn]
    expected = [row for rows, at, size in drawn for row in rows[at : at + size]]
    joined = pa.concat_tables(parts)
    is_chosen = (chosen * (1 + joined.num_rows // len(chosen)))[: joined.num_rows]
    kept = joined.filter(pa.array(is_chosen, pa.bool_()))
    for rows in (*parts, arrow_tables.conform(joined, SCHEMA), kept):
        assert read_again(rows).to_pylist() == rows.to_pylist()
        for column in rows.columns:
            for chunk in column.chunks:
                check(chunk)
    assert joined.to_pylist() == expected
    assert kept.to_pylist() == [row for row, is_kept in zip(expected, is_chosen, strict=True) if is_kept]


def test_an_empty_part_of_lists_has_no_offset_beyond_its_values() -> None:
    """`pc.list_flatten` crashes the process at such an offset."""
    kind = pa.list_(pa.struct([("n", pa.int64())]))
    check(arrow_tables.reorder(pa.array([[{"n": 1}], None], kind).slice(1, 0), kind))


def test_a_part_that_lacks_lists_has_empty_ones_beside_the_others() -> None:
    lists = pa.list_(pa.struct([("n", pa.int64())]))
    whole = pa.table({"k": [1], "v": ["a"], "lists": pa.array([[{"n": 1}]], lists)})
    joined = arrow_tables.joined([pa.table({"k": [2]}), whole])
    assert joined.sort_by("k").to_pylist() == [
        {"k": 1, "v": "a", "lists": [{"n": 1}]},
        {"k": 2, "v": None, "lists": []},
    ]


def reordered(rows: list[dict[str, Any]], at: int, size: int) -> pa.Table:
    """Return some of the rows, made of arrays that begin at an offset."""
    arrays = [
        pa.array([row[field.name] for row in rows], field.type).slice(min(at, len(rows)), size) for field in SCHEMA
    ]
    columns = [arrow_tables.reorder(array, array.type) for array in arrays]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def read_again(rows: pa.Table) -> pa.Table:
    """Write rows as Arrow's file format and read them."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_file(stream, rows.schema) as writer:
        writer.write_table(rows)
    with pa.ipc.open_file(stream.getvalue()) as reader:
        return reader.read_all()


def check(array: AnyArray) -> None:
    """Check that nulls are counted as the bitmap has them, and that lists lie inside their values, at every level."""
    array.validate(full=True)
    validity = array.buffers()[0]
    if validity is not None:
        bits = pa.Array.from_buffers(pa.bool_(), len(array), [None, validity], offset=array.offset)
        assert array.null_count == pc.sum(pc.invert(bits), min_count=0).as_py()
    if isinstance(array, pa.StructArray):
        for number in range(array.type.num_fields):
            check(array.field(number))
    if isinstance(array, pa.ListArray):
        assert array.offsets[-1].as_py() <= len(array.values)
        check(array.values)
