"""Compose the documents that a merge touches, of the rows that their tables have after it, and write them.

Nothing of the merge need be committed: the rows are read from the files that it leaves and from those that it wrote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from txloom.config.models.pipeline import Aggregate, Pipeline
from txloom.current.documents.child_counts import SeveralChildren
from txloom.current.documents.compose import distinct_keys
from txloom.steps.current.composition import Composition, Rows, compose_into
from txloom.steps.merge.rewrite_merge import TableMerge, may_rewrite
from txloom.storage.delta.data_files import Shape
from txloom.storage.paths import TablePaths
from txloom.storage.rewriting import taken_out
from txloom.storage.rewriting.changed_keys import ChangedKeys
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.rewriting.table_files import TableFiles
from txloom.storage.targets.row_tables import member_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Composed:
    """The documents that a merge touches, composed, without a commit.

    Args:
        rewrite: the commit in the making; None where no row changes.
        is_done: whether this could be done here: else Spark has to, because it would rewrite too much.
        several: for each child of the relation `one` a document with several of its rows.
    """

    rewrite: Rewrite | None = None
    is_done: bool = True
    several: Sequence[SeveralChildren] = ()


def prepare(
    session: "Callable[[], SparkSession]",
    paths: TablePaths,
    pipeline: Pipeline,
    aggregate: Aggregate,
    merges: Mapping[str, TableMerge],
    anew: Shape | None = None,
) -> Composed:
    """Compose the documents that a merge touches, and write their files, without a commit.

    Where rows changed and no document is touched, the commit says only how far the documents are. So documents are
    never behind their rows, unless their table was lost or restored.

    Args:
        session: opens a Spark session, where its tasks compose pieces.
        paths: the tables of the pipeline.
        pipeline: the declaration.
        aggregate: the documents.
        merges: by table, the computed merges of its members, none of them committed.
        anew: where all documents are composed, the schema and the bounds of their table; None: those that are touched.
    """
    root = pipeline.table(aggregate.root)
    parents = {aggregate.root: root.key} | {child.table: child.parent_key for child in aggregate.children}
    children = [member_of(pipeline.table(child.table), child) for child in aggregate.children]
    rows_of = [_rows(paths, merges[name], key) for name, key in parents.items()]
    if anew is not None:
        rewrite = Rewrite.of(paths.table(aggregate.current), root.key, anew)
        composition = Composition(root.key, root.column_names, children, _all_keys(rows_of[0]), rows_of)
        return Composed(rewrite, several=compose_into(rewrite, session, composition))
    touched = [each for name, key in parents.items() if (each := merges[name].touched.get(tuple(key))) is not None]
    keys = distinct_keys(touched, root.key) if touched else None
    if keys is None or not keys.num_rows:
        is_behind = any(merges[name].rewrite is not None for name in parents)
        return Composed(Rewrite.of(paths.table(aggregate.current), root.key) if is_behind else None)
    rewrite, changed = Rewrite.of(paths.table(aggregate.current), root.key), ChangedKeys.of(keys)
    held = taken_out.holding(session, rewrite, changed)
    if not may_rewrite(held):
        return Composed(is_done=False)
    rewrite.add(taken_out.taken_out(session, rewrite, held, changed, but=keys))
    composition = Composition(root.key, root.column_names, children, keys, rows_of)
    return Composed(rewrite, several=compose_into(rewrite, session, composition))


def _all_keys(root: Rows) -> pa.Table:
    """Return the key of each row of a root."""
    nothing = pa.schema([root.table.schema.field(name) for name in root.parent]).empty_table()
    return pa.concat_tables([nothing, *(root.table.read(file, root.parent) for file in root.files)])


def _rows(paths: TablePaths, merge: TableMerge, parent: Sequence[str]) -> Rows:
    """Return the rows of a member after its merge."""
    if merge.rewrite is not None:
        return Rows(parent, merge.rewrite.files, merge.rewrite.after())
    table = TableFiles.open(paths.table(merge.row_table.current))
    return Rows(parent, table, table.files)
