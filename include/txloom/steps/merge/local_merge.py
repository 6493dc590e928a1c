"""Compute a small merge in this process: the rules of `spark_merge`, with DataFusion as the reader."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.config.models.pipeline import Aggregate, Pipeline, Table
from txloom.current.documents.compose import compose
from txloom.current.folding.column_nulling import Columns, Gone, GoneColumns, columns_of
from txloom.current.folding.fold import fold
from txloom.current.folding.recompute import recompute
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.partition_pruning import Within
from txloom.storage.delta.sql import among, sql_name
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.targets import history_reader, schemas
from txloom.storage.targets.partitioning import concerned
from txloom.storage.targets.row_tables import RowTable, member_of

Key = tuple[Any, ...]


@dataclass(frozen=True)
class LocalChange:
    """How one row table is about to change.

    Args:
        row_table: the table.
        path: its path.
        replaced: the current rows that the effects replace; None where nothing changes.
        effects: rows in the table's schema and `_txloom_deleted`; None where nothing changes.
        changes: how many changes of history they result from.
        contradictions: JSON texts (`txloom.current.folding.contradictions`).
        columns: which columns are gone after the changes; None: as before.
    """

    row_table: RowTable
    path: str
    replaced: pa.Table | None
    effects: pa.Table | None
    changes: int = 0
    contradictions: Sequence[str] = ()
    columns: Columns | None = None

    @property
    def keys(self) -> set[Key]:
        """Return the keys of the effects."""
        return set() if self.effects is None else set(_keys(self.effects, self.row_table.key))

    def within(self) -> Within | None:
        """Return the partitions that the effects may change; None: any of them, or the table is not partitioned.

        An insert-only table gives None too: its rows have no key by which one could lie in another partition.
        """
        partitions = self.row_table.partitions
        if partitions is None or self.row_table.table.insert_only or self.effects is None or self.replaced is None:
            return None
        return concerned(partitions, self.row_table.key, self.replaced, self.effects)

    def written(self) -> list[dict[str, Any]]:
        """Return the effects that are rows, without the deleted ones."""
        if self.effects is None:
            return []
        rows: list[dict[str, Any]] = self.effects.filter(pc.invert(self.effects.column("_txloom_deleted"))).to_pylist()
        return rows


def size(paths: TablePaths, row_table: RowTable, target: Watermark, gone: GoneColumns) -> int | None:
    """Return how many changes the merge of a row table reads; None if it has to rewrite all rows of a large table.

    A late change makes it read the whole history of the table up to the target.

    Args:
        paths: the tables of the pipeline.
        row_table: the table.
        target: the watermark to bring it to.
        gone: by table, the columns that its source dropped before.
    """
    reached = watermark_of(paths.table(row_table.current))
    changes, late, truncates = history_reader.count(
        paths, row_table, history_reader.between(reached, target), history_reader.late(reached)
    )
    if (truncates or (changes and _lacks(paths, row_table, reached, target, gone))) and _rows(
        paths, row_table
    ) > arrow_tables.LOCAL_ROWS:
        return None
    return history_reader.count(paths, row_table, history_reader.upto(target), "false")[0] if late else changes


def _lacks(paths: TablePaths, row_table: RowTable, reached: Watermark, target: Watermark, gone: GoneColumns) -> bool:
    """Say whether inserts lack columns that are not known to be gone."""
    absent = history_reader.absent(paths, row_table, history_reader.between(reached, target))
    return bool(absent - set(gone.get(row_table.table.name, ())))


def _rows(paths: TablePaths, row_table: RowTable) -> int:
    count: int = (
        arrow_tables.select(paths.table(row_table.current), "select count(*) as n from t").column("n")[0].as_py()
    )
    return count


def prepare(paths: TablePaths, row_table: RowTable, target: Watermark, gone: Mapping[str, Gone]) -> LocalChange:
    """Compute, without writing, how one row table will change.

    Args:
        paths: the tables of the pipeline.
        row_table: the table.
        target: the watermark to bring it to.
        gone: columns that its source dropped before.
    """
    path = paths.table(row_table.current)
    reached = watermark_of(path)
    changes = history_reader.chosen(paths, row_table, history_reader.between(reached, target))
    if not changes.num_rows:
        return LocalChange(row_table, path, None, None)
    if pc.any(pc.less_equal(changes.column("_txloom_csn"), pa.scalar(reached.valid_through))).as_py():
        return _recomputed(paths, row_table, changes.num_rows, reached, target)
    truncated = pc.any(pc.equal(changes.column("_txloom_op"), pa.scalar("T"))).as_py()
    columns = columns_of(changes, gone)
    filled = [f'"{name}" is not null' for name in columns.clearing]
    condition = "true" if truncated else " or ".join([_touching(changes, row_table), *filled])
    rows = arrow_tables.select(path, f"select * from t where {condition}")
    effects = fold(rows, changes, key=row_table.key, columns=row_table.table.column_names, evidence=True)
    contradictions = cast("list[str]", effects.column("_txloom_evidence").drop_null().to_pylist())
    effects = row_table.filled(effects.drop_columns("_txloom_evidence"))
    return LocalChange(row_table, path, rows, effects, changes.num_rows, contradictions, columns)


def unknown_values(paths: TablePaths, row_table: RowTable, target: Watermark) -> list[Finding]:
    """Return a finding if a late change moves a row of which history no longer has every column, else no finding.

    That is an update that changes the key, lies below the csn up to which history was cleaned, and leaves columns
    unchanged.

    Args:
        paths: the tables of the pipeline.
        row_table: the table.
        target: the watermark to bring it to.
    """
    since, reached = history_reader.cleaned(paths, row_table), watermark_of(paths.table(row_table.current))
    if not since or reached == target:
        return []
    moves = f"_txloom_op = 'U' and cardinality(_txloom_unchanged) > 0 and _txloom_csn < {since}"
    rows = history_reader.chosen(
        paths, row_table, f"{moves} and _txloom_release > {reached.release} and _txloom_release <= {target.release}"
    )
    old, new = _named(rows, row_table.key, before=True), _named(rows, row_table.key, before=False)
    moved = rows.filter(pa.array([a != b for a, b in zip(old, new, strict=True)], pa.bool_()))
    evidence = f"{moved.num_rows} rows changed their key below csn {since}"
    return [
        Finding(f.UNKNOWN_VALUES, row_table.table.name, None, row["_txloom_csn"], row["_txloom_xid"], evidence)
        for row in moved.sort_by("_txloom_csn").slice(0, 1).select(["_txloom_csn", "_txloom_xid"]).to_pylist()
    ]


def _recomputed(
    paths: TablePaths, row_table: RowTable, changes: int, reached: Watermark, target: Watermark
) -> LocalChange:
    """Fold keys again because a change is late (`txloom.current.folding.recompute`); changes: how many are new."""
    path = paths.table(row_table.current)
    history = history_reader.changes(paths, row_table, target)
    rows = arrow_tables.select(path, "select * from t")
    effects = recompute(rows, history, reached, key=row_table.key, columns=row_table.table.column_names)
    columns = columns_of(history, {})
    return LocalChange(row_table, path, rows, row_table.filled(effects), changes, columns=columns)


def _named(changes: pa.Table, key: Sequence[str], *, before: bool) -> list[Key]:
    """Return the key that each change has before or after it; where an update has only one of both, this one."""
    image = changes.column("_txloom_before").combine_chunks()
    columns = []
    for name in key:
        if name in names.POSITION:
            columns.append(changes.column(name).to_pylist())
            continue
        old, new = pc.struct_field(image, name), changes.column(name).combine_chunks()
        columns.append((pc.coalesce(old, new) if before else pc.coalesce(new, old)).to_pylist())
    return list(zip(*columns, strict=True))


def _touching(changes: pa.Table, row_table: RowTable) -> str:
    """Return a condition that holds at least for every row whose key, old or new, is that of a change."""
    if row_table.table.insert_only:
        return "false"
    before = changes.column("_txloom_before").combine_chunks()
    first = row_table.key[0]
    values = set(changes.column(first).to_pylist()) | set(pc.struct_field(before, first).to_pylist())
    return among(sql_name(first), values, row_table.schema.field(first).type)


def _keys(table: pa.Table, key: Sequence[str]) -> list[Key]:
    return list(zip(*[table.column(name).to_pylist() for name in key], strict=True))


def documents(pipeline: Pipeline, aggregate: Aggregate, changes: Mapping[str, LocalChange]) -> pa.Table | None:
    """Compose the documents that the changes touch, with `_txloom_deleted`; None if they touch none.

    Args:
        pipeline: the declaration.
        aggregate: the documents to compose.
        changes: by table, how the row tables of the aggregate will change; they are not written yet.

    Returns:
        Rows in the schema of the aggregate's current table, and `_txloom_deleted` (only the key is filled then).
    """
    root = pipeline.table(aggregate.root)
    touched = _touched(aggregate, root, changes)
    if not touched:
        return None
    roots = {tuple(row[name] for name in root.key): row for row in _after(changes[root.name], root.key, touched)}
    children = {}
    for child in aggregate.children:
        table = pipeline.table(child.table)
        children[child.table] = (member_of(table, child), _after(changes[child.table], child.parent_key, touched))
    schema = pa.schema([*schemas.document_schema(pipeline, aggregate), ("_txloom_deleted", pa.bool_())])
    composed = compose(sorted(touched), roots, children, root.key, root.column_names)
    return pa.Table.from_pylist(composed, schema)


def _touched(aggregate: Aggregate, root: Table, changes: Mapping[str, LocalChange]) -> set[Key]:
    touched = changes[root.name].keys
    for child in aggregate.children:
        change = changes[child.table]
        if change.effects is None or change.replaced is None:
            continue
        touched |= {tuple(row[name] for name in child.parent_key) for row in change.written()}
        keys_with_parents = zip(
            _keys(change.replaced, change.row_table.key), _keys(change.replaced, child.parent_key), strict=True
        )
        keys = change.keys
        touched |= {parent for key, parent in keys_with_parents if key in keys}
    return {key for key in touched if None not in key}


def _after(change: LocalChange, columns: Sequence[str], touched: set[Key]) -> list[dict[str, Any]]:
    """Return the rows that a table has after the change, and whose given columns are the key of a touched document."""
    condition = among(sql_name(columns[0]), {key[0] for key in touched}, change.row_table.schema.field(columns[0]).type)
    keys = change.keys
    rows = arrow_tables.select(change.path, f"select * from t where {condition}").to_pylist()
    kept = [row for row in rows if tuple(row[name] for name in change.row_table.key) not in keys]
    return [row for row in [*kept, *change.written()] if tuple(row[name] for name in columns) in touched]
