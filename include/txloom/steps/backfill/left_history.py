"""A history as a backfill would leave it: its live rows, with the rebuilt ones instead of those with the same key."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.current.folding.components import components
from txloom.current.row_hashes import row_hashes
from txloom.steps.backfill.scope import Scope, Target
from txloom.steps.current.merge_source import Source
from txloom.storage.delta import arrow_tables
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.matching import others
from txloom.storage.targets import history_reader, schemas
from txloom.storage.targets.row_tables import RowTable

ROWS = 200_000
"""About how many rebuilt rows are compared with live ones at once."""
SAMPLE = 100_000
"""Rows by whose places a history is read range by range."""


@dataclass(frozen=True, kw_only=True)
class LeftHistory(Source):
    """The changes of a table in a history as the backfill would leave it, up to the live tables' newest watermark.

    Args:
        scope: the backfill.
        target: the history.
    """

    scope: Scope
    target: Target

    @classmethod
    def of(cls, scope: Scope, row_table: RowTable, target: Target) -> "LeftHistory":
        """Return the changes of a table; target: the history that holds them."""
        where = history_reader.upto(scope.newest_watermark)
        return cls(scope.paths, row_table, Watermark(), where, scope=scope, target=target)

    def read(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Read the changes part by part; columns: others may be null; None: all."""
        row_table, schema = self.row_table, schemas.changes_schema(self.row_table.table)
        read = self.target.schema.names if columns is None or row_table.mirror is None else columns
        for rows in left_rows(self.scope, self.target, self.where, read):
            yield arrow_tables.conform(history_reader.changes_of(rows, row_table), schema)

    def absent(self) -> set[str]:
        """Return the declared columns that some insert among the changes lacks."""
        return history_reader.absent_in(self.read(["_txloom_absent"]))

    def together(self, column: str) -> dict[object, object]:
        """Return the values of a key column that changes of keys connect, each with one that stands for all of them."""
        if column in names.POSITION:
            return {}
        return components(history_reader.edges_of(self.parts(keys_alone=True), column))


def left_rows(scope: Scope, target: Target, where: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of a history as the backfill would leave it, range by range of csns, so that memory is bounded.

    Args:
        scope: the backfill.
        target: the history.
        where: a SQL condition on rows; what a rebuilt row replaces is gone whether it holds for that one or not.
        columns: those that are read, beside the key.
    """
    live, rebuilt = scope.paths.table(target.name), scope.paths.table(names.shadow_table(target.name))
    schema = pa.schema([target.schema.field(name) for name in dict.fromkeys([*target.key, *columns])])
    key_schema = pa.schema([target.schema.field(name) for name in target.key])
    for within in _ranges(rebuilt, target.key):
        replaced = arrow_tables.rows_of(rebuilt, key_schema, within)
        condition = f"({where}) and {within}"
        for rows in pieces.gathered(arrow_tables.parts_of(live, schema, condition)):
            yield _without(rows, replaced, target.key)
        yield from arrow_tables.parts_of(rebuilt, schema, condition)


def _ranges(rebuilt: str, key: Sequence[str]) -> list[str]:
    """Return SQL conditions that cut a history into ranges of at most about ROWS rebuilt rows each.

    They are ranges of csns; one of a large transaction is cut by its rows' places, where the key has them.
    """
    places = [name for name in ("_txloom_csn", "_txloom_pos") if name in key]
    schema = pa.schema([(name, pa.int64()) for name in places])
    sample, count = pieces.sampled([schema.empty_table(), *arrow_tables.parts_of(rebuilt, schema)], SAMPLE)
    ranges = list[str]()
    for condition, of_range in _cut(sample, places[0], count // ROWS + 1):
        rows = of_range.num_rows * count // max(sample.num_rows, 1)
        inside = _cut(of_range, places[-1], rows // ROWS + 1) if len(places) > 1 and rows > 2 * ROWS else []
        ranges += [f"{condition} and {within}" for within, _ in inside] or [condition]
    return ranges


def _cut(sample: pa.Table, column: str, parts: int) -> list[tuple[str, pa.Table]]:
    """Return SQL conditions that cut rows into about equal ranges of a column, each with its rows of a sample."""
    bounds = pieces.cuts_of(sample.select([column]), parts, {}).bounds.to_pylist()
    if not bounds:
        return [("true", sample)]
    between = [f"{column} >= {low} and {column} < {high}" for low, high in itertools.pairwise(bounds)]
    numbers = np.searchsorted(np.array(bounds), sample.column(column).to_numpy(), "right")
    conditions = [f"{column} < {bounds[0]}", *between, f"{column} >= {bounds[-1]}"]
    return [(each, sample.filter(pa.array(numbers == number))) for number, each in enumerate(conditions)]


def _without(rows: pa.Table, replaced: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows whose key is not among some keys; null is a value like any other."""
    if not any(side.column(name).null_count for side in (rows, replaced) for name in key):
        return others(rows, replaced, key)
    return rows.filter(pc.invert(pc.is_in(row_hashes(rows, key), value_set=row_hashes(replaced, key))))
