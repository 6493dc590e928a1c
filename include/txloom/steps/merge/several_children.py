"""Findings about documents that have several rows of a child whose relation is declared `one`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from txloom.config.models.pipeline import Aggregate, Child, Pipeline
from txloom.current.documents.child_counts import SeveralChildren
from txloom.quality.findings import SEVERAL, Finding
from txloom.storage.checks import findings
from txloom.storage.delta import arrow_tables, small_merge
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.sql import sql_name
from txloom.storage.paths import TablePaths
from txloom.storage.targets.row_tables import row_tables

CHECKED_BYTES = 1 << 30
"""The most bytes of a child's table that are searched for documents with several of its rows."""
SINGLE = "no document has several now"


def findings_of_several(pipeline: Pipeline, several: Mapping[str, Sequence[SeveralChildren]]) -> list[Finding]:
    """Return the findings about documents, by the current table of their aggregate; nothing is written."""
    observed = list[Finding]()
    for aggregate in pipeline.targets.aggregates:
        tables = {child.as_: child.table for child in aggregate.children}
        key = pipeline.table(aggregate.root).key
        observed += [
            Finding(SEVERAL, aggregate.current, each.field, each.csn, each.xid, each.describe(key, tables[each.field]))
            for each in several.get(aggregate.current, ())
        ]
    return observed


def close_single(
    pipeline: Pipeline,
    paths: TablePaths,
    known: Sequence[dict[str, Any]],
    again: Sequence[Finding],
    merged: Collection[str],
    run_id: str,
) -> None:
    """Close the findings of children of which no document has several rows after a merge.

    Nothing is read where no such finding is open, where the merge found it again, or where the merge wrote none of the
    child, the root and the documents. A repeated call closes nothing more.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        known: the findings that were open before the merge.
        again: those that it found.
        merged: the source tables that were merged, and the current tables whose documents were.
        run_id: the run.
    """
    still = {(each.table, each.column) for each in again}
    for row in (each for each in known if each["code"] == SEVERAL and (each["table"], each["column"]) not in still):
        declared = _declared(pipeline, row["table"], row["column"])
        if declared is None:
            findings.close(paths, [row], run_id, "its relation is not declared `one` any more")
            continue
        aggregate, child = declared
        if {aggregate.root, child.table, aggregate.current} & {*merged} and _is_single(
            pipeline, paths, aggregate, child
        ):
            findings.close(paths, [row], run_id, SINGLE)


def _declared(pipeline: Pipeline, table: str, field: str) -> tuple[Aggregate, Child] | None:
    """Return the aggregate and the child of the relation `one` that a document's field is declared as."""
    for aggregate in pipeline.targets.aggregates:
        for child in aggregate.children:
            if (aggregate.current, child.as_, child.relation) == (table, field, "one"):
                return aggregate, child
    return None


def _is_single(pipeline: Pipeline, paths: TablePaths, aggregate: Aggregate, child: Child) -> bool:
    """Return whether no document has several rows of a child; False also where its table is too large to know it."""
    current = {each.table.name: paths.table(each.current) for each in row_tables(pipeline)}
    root, rows = current[aggregate.root], current[child.table]
    if small_merge.bytes_of(rows) > CHECKED_BYTES:
        return False
    names = ", ".join(map(sql_name, child.parent_key))
    several = f"select {names} from c group by {names} having count(*) > 1"
    pairs = zip(child.parent_key, pipeline.table(aggregate.root).key, strict=True)
    same = " and ".join(f"s.{sql_name(column)} = r.{sql_name(key)}" for column, key in pairs)
    sql = f"select 1 as n from ({several}) s where exists (select 1 from r where {same}) limit 1"
    return not arrow_tables.ask({"c": opened(rows), "r": opened(root)}, sql).num_rows
