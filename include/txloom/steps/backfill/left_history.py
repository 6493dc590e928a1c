"""A history as a backfill would leave it: its live rows, with the rebuilt ones instead of those with the same key."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.current.folding.components import components
from txloom.current.row_hashes import row_hashes
from txloom.steps.backfill.scope import Scope, Target
from txloom.steps.merge.merge_source import READ_FOR_KEYS, Source
from txloom.storage.delta import arrow_tables
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.matching import others
from txloom.storage.targets import history_reader, schemas, shadow_tables
from txloom.storage.targets.row_tables import RowTable

ROWS = 200_000
"""About how many rebuilt rows are compared with live ones at once."""
SAMPLE = 100_000
"""Csns by which a history is read range by range."""


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

    def parts(self, *, keys_alone: bool = False) -> Iterator[pa.Table]:
        """Read the changes part by part; keys_alone: other columns than those of the key may be null."""
        row_table, schema = self.row_table, schemas.changes_schema(self.row_table.table)
        some = keys_alone and row_table.mirror is not None
        read = [*READ_FOR_KEYS, *row_table.key] if some else self.target.schema.names
        for rows in left_rows(self.scope, self.target, self.where, read):
            yield arrow_tables.conform(history_reader.changes_of(rows, row_table), schema)

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
    for within in _ranges(rebuilt):
        replaced = shadow_tables.rows_of(rebuilt, key_schema, within)
        condition = f"({where}) and {within}"
        for rows in arrow_tables.gathered(shadow_tables.parts_of(live, schema, condition), pieces.GATHERED):
            yield _without(rows, replaced, target.key)
        yield from shadow_tables.parts_of(rebuilt, schema, condition)


def _ranges(rebuilt: str) -> list[str]:
    """Return SQL conditions that cut all csns into ranges of at most about ROWS rebuilt rows each."""
    csn_alone = pa.schema([("_txloom_csn", pa.int64())])
    parts = [csn_alone.empty_table(), *shadow_tables.parts_of(rebuilt, csn_alone)]
    sample, count = pieces.sampled(parts, SAMPLE)
    bounds = pieces.cuts_of(sample, count // ROWS + 1, {}).bounds.to_pylist()
    if not bounds:
        return ["true"]
    between = [f"_txloom_csn >= {low} and _txloom_csn < {high}" for low, high in itertools.pairwise(bounds)]
    return [f"_txloom_csn < {bounds[0]}", *between, f"_txloom_csn >= {bounds[-1]}"]


def _without(rows: pa.Table, replaced: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows whose key is not among some keys; null is a value like any other."""
    if not any(side.column(name).null_count for side in (rows, replaced) for name in key):
        return others(rows, replaced, key)
    return rows.filter(pc.invert(pc.is_in(row_hashes(rows, key), value_set=row_hashes(replaced, key))))
