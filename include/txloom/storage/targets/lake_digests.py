"""A current table as an audit compares it: keys in order, and a digest of each row."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.config.models.pipeline import Column, Table
from txloom.current.equality.canonical_texts import Form, canonical, digests, row_texts, total
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.sql import sql_name
from txloom.storage.paths import TablePaths
from txloom.storage.targets.row_tables import RowTable

CSN = "_txloom_csn"
RANGE_ROWS = 20_000
"""Rows of a key range."""
Key = tuple[str, ...]
Texts = tuple[str | None, ...]
NO_FORMS: Mapping[str, Form] = {}


@dataclass(frozen=True)
class LakeRows:
    """The rows of a current table at one version, ordered by key.

    Args:
        keys: the key's columns; one with a form holds canonical texts, by which the source orders it too.
        digests: of the rows.
        columns: the declared columns of the key.
        forms: by column, how the source writes equal values in several ways.
    """

    keys: pa.Table
    digests: "np.ndarray[Any, np.dtype[np.int64]]"
    columns: Sequence[Column]
    forms: Mapping[str, Form]

    @property
    def ranges(self) -> Iterator["LakeRows"]:
        """The rows in ranges of RANGE_ROWS; at least one."""
        for start in range(0, max(1, self.keys.num_rows), RANGE_ROWS):
            end = start + RANGE_ROWS
            yield replace(self, keys=self.keys.slice(start, RANGE_ROWS), digests=self.digests[start:end])

    @property
    def first(self) -> tuple[Any, ...]:
        """The values of the lowest key; () without rows."""
        return tuple(self.keys.slice(0, 1).to_pylist()[0].values()) if self.keys.num_rows else ()

    @property
    def summed(self) -> tuple[int, int]:
        """How many rows there are, and the sum of their digests."""
        return self.keys.num_rows, total(self.digests)

    def by_key(self) -> dict[Key, tuple[tuple[Any, ...], int]]:
        """Return by canonical key the key's values, and the sum of the digests of all rows that have it."""
        texts = [each.to_pylist() for each in texts_of(self.keys, self.columns, self.forms)]
        values = [tuple(row.values()) for row in self.keys.to_pylist()]
        return summed(zip(zip(*texts, strict=True), values, self.digests.tolist(), strict=True))


def summed(rows: Iterable[tuple[Key, tuple[Any, ...], int]]) -> dict[Key, tuple[tuple[Any, ...], int]]:
    """Return by canonical key the key's values, and the sum of the digests of all rows that have it.

    >>> summed([(("a",), (1,), 5), (("b",), (2,), 7), (("a",), (1,), 5)])
    {('a',): ((1,), 10), ('b',): ((2,), 7)}
    """
    known = dict[Key, tuple[tuple[Any, ...], int]]()
    for key, values, digest in rows:
        known[key] = (values, digest + known[key][1] if key in known else digest)
    return known


def lake_rows(paths: TablePaths, row_table: RowTable, version: int, forms: Mapping[str, Form]) -> LakeRows:
    """Read a current table at a version, part by part: of each row its key and its digest are kept.

    forms: by column, how the source writes equal values in several ways.
    """
    columns, width = audited(row_table), len(row_table.key)
    read = ", ".join(sql_name(column.name) for column in columns)
    table = opened(paths.table(row_table.current), version)
    return in_order(arrow_tables.batches({"t": table}, f"select {read} from t"), columns, width, forms)


def in_order(
    batches: Iterable[pa.Table], columns: Sequence[Column], width: int, forms: Mapping[str, Form] = NO_FORMS
) -> LakeRows:
    """Return keys and digests of rows in the order of their keys; of the rows no more is kept.

    Args:
        batches: rows with the declared columns and types.
        columns: as `audited` has them: the key's are the first.
        width: how many columns the key has.
        forms: by column, how the source writes equal values in several ways.
    """
    names, keys = [column.name for column in columns[:width]], list[pa.Table]()
    made = list["np.ndarray[Any, np.dtype[np.int64]]"]()
    for rows in batches:
        texts = texts_of(rows, columns, forms)
        made.append(digests(row_texts(texts)))
        formed = dict(zip(names, texts, strict=False))
        key = {name: formed[name] if name in forms else rows.column(name).combine_chunks() for name in names}
        keys.append(pa.table(key))
    every = pa.concat_tables(keys) if keys else pa.table({name: pa.array([], pa.null()) for name in names})
    order = pc.sort_indices(every, [(name, "ascending") for name in names])
    ordered = np.concatenate([*made, np.zeros(0, np.int64)])[order.to_numpy()]
    return LakeRows(every.take(order), ordered, columns[:width], forms)


def rows_at(
    paths: TablePaths,
    row_table: RowTable,
    version: int,
    keys: Mapping[Key, tuple[Any, ...]],
    forms: Mapping[str, Form],
) -> dict[Key, list[tuple[Texts, int]]]:
    """Return the canonical texts of some rows at a version, and the csn of their newest change, by canonical key.

    A key has several rows only where the table is damaged. keys: the keys' values by their canonical keys, which are
    those of the lake, or texts of the source.
    """
    columns, width = audited(row_table), len(row_table.key)
    read = ", ".join([*(sql_name(column.name) for column in columns), CSN])
    there, firsts = dict[Key, list[tuple[Texts, int]]](), pa.array([key[0] for key in keys], pa.string())
    table = opened(paths.table(row_table.current), version)
    for rows in arrow_tables.batches({"t": table}, f"select {read} from t"):
        (first,) = texts_of(rows, columns[:1], forms)
        some = rows.filter(pc.is_in(first, firsts))
        texts = zip(*(column.to_pylist() for column in texts_of(some, columns, forms)), strict=True)
        for row, csn in zip(texts, cast("list[int]", some.column(CSN).to_pylist()), strict=True):
            if row[:width] in keys:
                there.setdefault(row[:width], []).append((row, csn))
    return there


def changed_keys(changes: pa.Table, row_table: RowTable, forms: Mapping[str, Form]) -> set[Key] | None:
    """Return the canonical keys that rows had before and after changes; None: of all rows, because of a truncate."""
    if "T" in changes.column("_txloom_op").to_pylist():
        return None
    columns, keys = audited(row_table)[: len(row_table.key)], set[Key]()
    before = {name: pc.struct_field(changes.column("_txloom_before"), [name]) for name in row_table.key}
    for image in (changes.select(list(row_table.key)), pa.table(before)):
        texts = zip(*(column.to_pylist() for column in texts_of(image, columns, forms)), strict=True)
        keys |= {key for key in texts if None not in key}
    return keys


def audited(row_table: RowTable) -> list[Column]:
    """Return the declared columns of a table in the order in which an audit writes them: the key's first."""
    return audited_columns(row_table.table)


def audited_columns(table: Table) -> list[Column]:
    """Return the declared columns of a table, the key's first."""
    return [*(table.column(name) for name in table.key), *(c for c in table.columns if c.name not in table.key)]


def texts_of(rows: pa.Table, columns: Sequence[Column], forms: Mapping[str, Form] = NO_FORMS) -> list[AnyArray]:
    """Return the canonical texts of rows, column by column."""
    return [
        canonical(rows.column(column.name).combine_chunks(), column.type, forms.get(column.name)) for column in columns
    ]
