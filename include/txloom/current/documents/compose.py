"""Compose documents of an aggregate from rows of its members: a root with its children nested."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray, AnyValues
from txloom.current.documents.child_counts import count_column

STAMP = ("_txloom_csn", "_txloom_pos", "_txloom_xid")
NOWHERE = -1
"""The place of a row that belongs to no document."""
LOWEST = np.iinfo(np.int64).min
Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Member:
    """A child table of an aggregate: its key, the columns that name its parent, and its field in the document."""

    field: str
    relation: str
    key: tuple[str, ...]
    parent_key: tuple[str, ...]
    columns: tuple[str, ...]


def compose(
    touched: pa.Table,
    root: pa.Table,
    children: Sequence[tuple[Member, pa.Table]],
    key: Sequence[str],
    columns: Sequence[str],
) -> pa.Table:
    """Return one row per touched document, in their order.

    A document exists while its root row does; a child belongs to the document that its parent columns name. A field of
    the relation `many` has all children, ordered by their key, one of `one` the last of them, or null; how many there
    are is in its `count_column`. The stamp of a document (csn, pos, xid) is the newest of its rows.

    Args:
        touched: The keys of the documents to compose, each once.
        root: Rows of the root, also of other documents.
        children: Each child table with rows of it, also of other documents.
        key: The root's key columns.
        columns: The root's declared columns.

    Returns:
        The declared columns, the children's fields and counts, STAMP, and `_txloom_deleted`: a touched document without
        a root row is deleted, and only its key is filled.

    >>> none = pa.table({"id": [7], "name": ["x"], "_txloom_csn": [1], "_txloom_pos": [1], "_txloom_xid": ["a"]})
    >>> compose(pa.table({"id": [1]}), none, [], ["id"], ["id", "name"]).select(["id", "_txloom_deleted"]).to_pylist()
    [{'id': 1, '_txloom_deleted': True}]
    """
    of_root = _places(root, key, touched, key)
    known = np.full(touched.num_rows, NOWHERE)
    known[of_root[of_root != NOWHERE]] = np.flatnonzero(of_root != NOWHERE)
    exists = known != NOWHERE
    roots = root.take(_indices(known, exists))
    composed: dict[str, AnyValues] = {name: (touched if name in key else roots).column(name) for name in columns}
    stamps, places = [root.select(STAMP)], [of_root]
    for member, rows in children:
        of_rows = _places(rows, member.parent_key, touched, key)
        of_rows[of_rows != NOWHERE] = np.where(exists, np.arange(len(exists)), NOWHERE)[of_rows[of_rows != NOWHERE]]
        composed[member.field] = _nested(member, rows, of_rows, exists)
        if member.relation == "one":
            counts = np.bincount(of_rows[of_rows != NOWHERE], minlength=len(exists))
            composed[count_column(member.field)] = pa.array(counts, pa.int64())
        stamps.append(rows.select(STAMP))
        places.append(of_rows)
    newest = _newest(pa.concat_tables(stamps), np.concatenate(places), exists)
    composed |= {name: newest.column(name) for name in STAMP}
    return pa.table(composed | {"_txloom_deleted": pa.array(~exists)})


def documents(
    root: pa.Table,
    children: Sequence[tuple[Member, pa.Table]],
    key: Sequence[str],
    columns: Sequence[str],
) -> pa.Table:
    """Return all documents of some rows, in the order of the root's: what `compose` returns of them, without counts."""
    composed = compose(root.select(list(key)), root, children, key, columns)
    return composed.select([*columns, *(member.field for member, _ in children), *STAMP])


def distinct_keys(parts: Iterable[pa.Table], key: Sequence[str]) -> pa.Table:
    """Return the distinct keys in the columns of some tables, whatever these are called; none that is null in part."""
    keys = pa.concat_tables([part.rename_columns(list(key)) for part in parts]).drop_null()
    # The chunks of a group_by share one buffer, which would be pickled whole with each of them.
    return keys.group_by(list(key)).aggregate([]).select(list(key)).combine_chunks()


def _places(rows: pa.Table, columns: Sequence[str], touched: pa.Table, key: Sequence[str]) -> Places:
    """Return for each row the place of its document among the touched ones, or NOWHERE."""
    if len(key) == 1:
        numbers = pc.index_in(rows.column(columns[0]), value_set=touched.column(key[0]).combine_chunks())
        return numbers.fill_null(NOWHERE).to_numpy().astype(np.int64)
    numbered = rows.select(list(columns)).rename_columns(list(key))
    numbered = numbered.append_column("_txloom_row", pa.array(np.arange(rows.num_rows)))
    documents_at = touched.select(list(key)).append_column("_txloom_place", pa.array(np.arange(touched.num_rows)))
    joined = numbered.join(documents_at, keys=list(key), join_type="inner")
    places = np.full(rows.num_rows, NOWHERE)
    places[joined.column("_txloom_row").to_numpy()] = joined.column("_txloom_place").to_numpy()
    return places


def _nested(member: Member, rows: pa.Table, places: Places, exists: Flags) -> AnyArray:
    """Return the value of a child's field for each document; null where there is no document."""
    belonging = np.flatnonzero(places != NOWHERE)
    ordering = rows.select(list(member.key)).take(belonging)
    ordering = ordering.append_column("_txloom_place", pa.array(places[belonging]))
    ordering = ordering.append_column("_txloom_row", pa.array(belonging))
    by: list[tuple[str, Literal["ascending", "descending"]]] = [
        (each, "ascending") for each in ("_txloom_place", *member.key)
    ]
    order = ordering.sort_by(by).column("_txloom_row").to_numpy()
    ends = np.cumsum(np.bincount(places[order], minlength=len(exists)))
    chosen = rows.select(list(member.columns)).take(order).combine_chunks()
    images = pa.StructArray.from_arrays([column.combine_chunks() for column in chosen.columns], fields=[*chosen.schema])
    if member.relation == "many":
        offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
        return pa.ListArray.from_arrays(offsets, images, mask=pa.array(~exists))
    has_one = np.diff(ends, prepend=0) > 0
    return images.take(_indices(ends - 1, has_one))


def _newest(stamps: pa.Table, places: Places, exists: Flags) -> pa.Table:
    """Return the newest of the stamps of each document; null where there is no document."""
    chosen = np.flatnonzero(places != NOWHERE)
    csn, pos = (
        stamps.column(name).fill_null(pa.scalar(LOWEST)).to_numpy()[chosen] for name in ("_txloom_csn", "_txloom_pos")
    )
    xids = stamps.column("_txloom_xid").combine_chunks().dictionary_encode()
    ranks = np.argsort(pc.array_sort_indices(xids.dictionary).to_numpy())
    codes = xids.indices.fill_null(0).to_numpy()[chosen]
    order = np.lexsort((ranks[codes] if len(ranks) else codes, pos, csn, places[chosen]))
    last = np.cumsum(np.bincount(places[chosen], minlength=len(exists))) - 1
    indices = np.where(exists, chosen[order][last] if len(chosen) else NOWHERE, NOWHERE)
    return stamps.take(_indices(indices, exists))


def _indices(numbers: Places, known: Flags) -> pa.Int64Array:
    """Return numbers of rows; null where none is known."""
    return pa.array(numbers, pa.int64(), mask=~known)
