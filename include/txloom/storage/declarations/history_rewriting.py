"""Rewrite a history in one commit: rows under new names of columns, or rows in the place of others."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from txloom.arrow_types import AnyArray
from txloom.config.contents import Content
from txloom.storage.declarations.records import State
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.committing import commit_no_row, commit_once, commit_properties, written
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.paths import TablePaths
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.targets import history_reader

NAMED_COLUMNS = ("unchanged", "before_known", "absent")
"""Columns of a history that list names of columns, without txloom's prefix."""
PREFIX = "_txloom_"


@dataclass(frozen=True)
class Renamed:
    """New names in the rows of a history that were written up to a release.

    Args:
        until: the release.
        columns: by new name of a column, its name in these rows.
        keys: of an aggregate's history, by new name of a column of the root's key, its name in these rows.
        fields: of an aggregate's history, by new name of a member's field, its name in these rows.
        of_fields: by field, the new names of columns of its member.
    """

    until: int
    columns: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    of_fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def rename(path: str, renamed: Renamed, numbers: Mapping[str, int]) -> None:
    """Give values of earlier releases the new names of their columns, in one commit that rewrites the history.

    A repeated call can mix up values, because a column may have got the earlier name of another. The numbers record
    that the columns were renamed.

    Args:
        path: the history.
        renamed: the new names.
        numbers: by write id, the number that the commit records (`numbers_of`).
    """
    schema = arrow_tables.plain_schema(arrow_tables.schema_of(opened(path)))
    replace(path, schema, (with_names(rows, renamed) for rows in rows_of(path)), numbers)


def renamed_to(paths: TablePaths, state: State) -> Content | None:
    """Return the declaration whose names the rows of the settled record have now.

    If a member waits for messages, or a run died, the member's rows may be renamed or replaced before the member is
    settled. None: the rows have the names of the settled record.
    """
    path = paths.table(state.newest.table)
    if state.settled is None or not exists(path):
        return None
    table, declarations = opened(path), {record.number: record.declaration for record in state.since}
    return declarations.get(max(written(table, _write_id(member)) for member in state.names))


def numbers_of(states: Iterable[State]) -> dict[str, int]:
    """Return what a rewrite records in a history: by write id, the number of a member's newest record."""
    return {_write_id(state.newest.pair[1]): state.newest.number for state in states}


def _write_id(member: str) -> str:
    return f"names/{member}"


def replace(path: str, schema: pa.Schema, parts: Iterable[pa.Table], numbers: Mapping[str, int] | None = None) -> None:
    """Replace all rows of a history in one commit.

    Args:
        path: the history.
        schema: its schema.
        parts: the new rows, which may be read from it meanwhile.
        numbers: by write id, a number that the commit records.
    """
    table = FENCE.opened(path)

    def batches() -> Iterator[pa.RecordBatch]:
        for rows in parts:
            yield from arrow_tables.conform(rows, schema).to_batches()

    write_deltalake(
        table,
        pa.RecordBatchReader.from_batches(schema, batches()),
        mode="overwrite",
        commit_properties=commit_properties(once=(numbers or {}).items(), metadata=newest_metadata(path) or None),
    )


def fill_empty(path: str, key: Sequence[str], parts: Iterable[pa.Table]) -> bool:
    """Write rows into a history that has none, in one commit, and return whether it had none; no rows: no commit.

    key: the columns by which its files are ordered.
    """
    (held,) = small_tables.query(path, "select count(*) as n from t")
    if held["n"]:
        return False
    rewrite = Rewrite.of(path, key)
    for rows in parts:
        rewrite.add(rows)
    if rewrite.added:
        rewrite.commit(None)
    return True


def mark_cleaned(path: str, csn: int) -> None:
    """Record in a history that it lacks superseded rows up to a csn, in a commit that changes no row.

    Readers of earlier states are refused from then on. A history that was cleaned up to a higher csn stays as it is.
    """
    commit_once(path, (history_reader.CLEANED, csn), commit_no_row)


def rows_of(path: str) -> Iterator[pa.Table]:
    """Return all rows of a history, part by part."""
    return arrow_tables.batches({"t": opened(path)}, "select * from t")


def with_names(rows: pa.Table, renamed: Renamed) -> pa.Table:
    """Return rows of a history with new names in those of earlier releases."""
    release: AnyArray = rows.column("_txloom_release").combine_chunks()
    earlier = pc.less_equal(release, pa.scalar(renamed.until))
    columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    result = dict(columns)
    if renamed.columns:
        result |= _renamed_columns(columns, renamed.columns, earlier)
    result |= _with_earlier(columns, renamed.keys, earlier)
    for new, old in renamed.fields.items():
        if old in columns and new in columns:
            both = _with_columns(columns[new].type, columns[old].type, renamed.of_fields.get(new, {}).values())
            result[new] = pc.if_else(earlier, *(arrow_tables.reorder(columns[name], both) for name in (old, new)))
    for name, names in renamed.of_fields.items():
        result[name] = _renamed_list(result[name], names, earlier)
    for name in renamed.fields.keys() & columns.keys():
        result[name] = arrow_tables.reorder(result[name], columns[name].type)
    return pa.table({name: result[name] for name in rows.column_names})


def _with_columns(member: pa.DataType, earlier: pa.DataType, names: Collection[str]) -> pa.DataType:
    """Return the type of a member's changes with columns that only the changes of an earlier field have."""

    def widened(fields: pa.StructType, others: pa.StructType) -> "list[pa.Field[Any]]":
        known = {each.name for each in fields}
        return [*fields, *(each for each in others if each.name in names and each.name not in known)]

    changes, others = (cast("pa.ListType[pa.StructType]", each).value_type for each in (member, earlier))
    before = changes[changes.get_field_index(f"{PREFIX}before")]
    images = (cast("pa.StructType", each[each.get_field_index(before.name)].type) for each in (changes, others))
    wide = before.with_type(pa.struct(widened(*images)))
    fields = [wide if each.name == before.name else each for each in widened(changes, others)]
    return pa.list_(pa.struct(fields))


def _renamed_list(lists: AnyArray, names: Mapping[str, str], earlier: AnyArray) -> AnyArray:
    """Return an aggregate's member with new names of columns in the changes of chosen rows."""
    if not len(lists):
        return lists
    changes, parents = pc.list_flatten(lists), pc.list_parent_indices(lists)
    columns = {changes.type.field(i).name: pc.struct_field(changes, [i]) for i in range(changes.type.num_fields)}
    columns |= _renamed_columns(columns, names, earlier.take(parents))
    values = pa.StructArray.from_arrays([columns[each.name] for each in changes.type], fields=list(changes.type))
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    # The stubs know no mask beside a type.
    made: AnyArray = pa.ListArray.from_arrays(offsets, values, type=lists.type, mask=lists.is_null())  # type: ignore[call-overload]
    return made


def _renamed_columns(
    columns: Mapping[str, AnyArray], names: Mapping[str, str], earlier: AnyArray
) -> dict[str, AnyArray]:
    """Return the columns of changes that get values under a new name."""
    made = _with_earlier(columns, names, earlier)
    before = columns[f"{PREFIX}before"]
    images = {before.type.field(i).name: pc.struct_field(before, [i]) for i in range(before.type.num_fields)}
    changed = _with_earlier(images, names, earlier)
    fields = [(images | changed)[each.name] for each in before.type]
    made[f"{PREFIX}before"] = pa.StructArray.from_arrays(fields, fields=list(before.type), mask=before.is_null())
    new_names = {old: new for new, old in names.items()}
    for name in (f"{PREFIX}{each}" for each in NAMED_COLUMNS):
        made[name] = _renamed_names(columns[name], new_names, earlier)
    return made


def _with_earlier(columns: Mapping[str, AnyArray], names: Mapping[str, str], earlier: AnyArray) -> dict[str, AnyArray]:
    """Return columns with new names, whose values in earlier rows come from the columns with the old names."""
    return {new: pc.if_else(earlier, columns[old].cast(columns[new].type), columns[new]) for new, old in names.items()}


def _renamed_names(lists: AnyArray, names: Mapping[str, str], earlier: AnyArray) -> AnyArray:
    """Return lists of names of columns with new names in chosen rows.

    A name that a column gets stands for another, removed column in these rows, and is left out.
    """
    if lists.null_count == len(lists):
        return lists
    replaced = set(names.values()) - names.keys()
    texts: Sequence[Sequence[str] | None] = lists.to_pylist()
    flags = earlier.to_pylist()
    changed = [
        [names.get(each, each) for each in text if each not in replaced] if text is not None and flag else text
        for text, flag in zip(texts, flags, strict=True)
    ]
    made: AnyArray = pa.array(changed, lists.type)
    return made
