"""Schema drift: undeclared columns, which a release observes, and dropped columns, which a merge observes.

Only inserts show all columns of a table: an update may leave out what it does not change, a delete may have only the
key. Which columns are gone follows from history in commit order (`txloom.current.folding.column_nulling`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config.models.pipeline import Pipeline
from txloom.current.folding.column_nulling import Columns, Gone, GoneColumns
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.storage.checks import findings
from txloom.storage.declarations import marks
from txloom.storage.declarations.undeclared_columns import Undeclared
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_reader
from txloom.storage.targets.row_tables import RowTable, row_tables

GONE = (f.DROPPED, f.RENAMED)
FEWEST = 5
"""From so many updates on, none of which has an image before, a finding is recorded."""


def undeclared(typed: Mapping[str, pa.Table]) -> list[Undeclared]:
    """Return the undeclared columns of typed events, each with csn and xid of the first event that has it.

    Args:
        typed: events by table name, with the columns of an `ImageReader` (`undeclared`: a list of names in each row)
            beside `csn` and `xid`.
    """
    by_column: dict[tuple[str, str], Undeclared] = {}
    for name, events in typed.items():
        lists = events.column("undeclared").combine_chunks()
        if lists.null_count == len(lists):
            continue
        rows = events.select(["csn", "xid"]).take(pc.list_parent_indices(lists))
        for row in rows.append_column("source", pc.list_flatten(lists)).sort_by("csn").to_pylist():
            by_column.setdefault((name, row["source"]), Undeclared(name, row["source"], row["csn"], row["xid"]))
    return list(by_column.values())


def without_before(typed: Mapping[str, pa.Table]) -> list[Finding]:
    """Return a finding for each table whose updates all come without the image before; below FEWEST updates none.

    That matters where an update may change the key, as in GoldenGate's rows. Debezium sends a changed key as a delete
    and an insert, wal2json sends the old key: there an update without an image before does not change the key.

    Args:
        typed: events by table name, with the columns `op`, `before`, `csn` and `xid`.
    """
    observed = []
    for name, events in typed.items():
        updates = events.filter(pc.equal(events.column("op"), pa.scalar("U")))
        if updates.num_rows >= FEWEST and updates.column("before").null_count == updates.num_rows:
            first = updates.sort_by("csn").slice(0, 1).select(["csn", "xid"]).to_pylist()[0]
            evidence = f"{updates.num_rows} updates in a row"
            observed.append(Finding(f.NO_BEFORE, name, None, first["csn"], first["xid"], evidence))
    return observed


def added(pipeline: Pipeline, column: Undeclared, kept: str | None = None) -> Finding:
    """Return the finding of an undeclared column.

    Args:
        pipeline: the declaration that does not have the column.
        column: the column, with its first event.
        kept: the column's name in the lake where its table takes it up; None where the values are left out.
    """
    policy = pipeline.table(column.table).undeclared_columns
    what = "it is left out" if policy == "ignore" else "its name in the lake is taken or not possible"
    what = f"it is kept as text, as {kept}" if kept else what
    evidence = f"a row has it, it is not declared: {what}"
    return Finding(f.ADDED, column.table, column.source, column.csn, column.xid, evidence)


def gone_columns(pipeline: Pipeline, paths: TablePaths, rows: Iterable[Mapping[str, Any]]) -> GoneColumns:
    """Return by table the declared columns that open findings (rows of `findings`) report as dropped or renamed.

    Tables that no merge has written yet are left out: they get all changes, also those before a column was dropped.
    """
    declared = {(table.name, column) for table in pipeline.tables for column in table.column_names}
    gone: dict[str, dict[str, Gone]] = {}
    for row in rows:
        if row["code"] in GONE and (row["table"], row["column"]) in declared:
            gone.setdefault(row["table"], {})[row["column"]] = Gone(row["since_csn"], 0, row["xid"])
    current = {each.current: each.table.name for each in row_tables(pipeline) if each.table.name in gone}
    new = {current[name] for name, mark in marks.readable(paths, current).items() if mark.is_new}
    return {name: columns for name, columns in gone.items() if name not in new}


def note_back(
    paths: TablePaths, before: Sequence[dict[str, Any]], after: Mapping[str, Columns | None], run_id: str
) -> None:
    """Close the findings of dropped columns that inserts have again.

    It is called before their values are written. If the run dies in between, the next merge nulls the column once more
    than needed, and then applies the inserts that have it. A repeated call closes nothing more.

    Args:
        paths: the tables of the pipeline.
        before: open findings, as rows of `findings`.
        after: by table, which columns are gone after the merge; None: as before.
        run_id: the run that closes them.
    """
    for table, columns in after.items():
        if columns is not None:
            back = [row for name, row in _known(before, table).items() if name not in columns.gone]
            findings.close(paths, back, run_id, findings.BACK)


def note_declared(pipeline: Pipeline, paths: TablePaths, before: Sequence[dict[str, Any]], run_id: str) -> None:
    """Close the findings of undeclared columns that are declared by now.

    Args:
        pipeline: the declaration, without columns that tables took up by themselves.
        paths: the tables of the pipeline.
        before: open findings, as rows of `findings`.
        run_id: the run that closes them.
    """
    declared = {
        (table.name, name.casefold())
        for table in pipeline.tables
        for column in table.columns
        for name in column.sources
    }
    added_before = [row for row in before if row["code"] == f.ADDED]
    over = [row for row in added_before if (row["table"], row["column"].casefold()) in declared]
    findings.close(paths, over, run_id, "it is declared")


def note_gone(
    pipeline: Pipeline,
    paths: TablePaths,
    before: Sequence[dict[str, Any]],
    after: Mapping[str, Columns | None],
    run_id: str,
) -> list[Finding]:
    """Record findings for columns that were dropped, after their values were nulled; return the new ones.

    A column that was dropped, came back and is dropped again is one that the producer leaves out where it is null: that
    is another finding. A repeated call records nothing more.

    Args:
        pipeline: the declaration, with the tables that were merged.
        paths: the tables of the pipeline.
        before: findings that were open before the merge, as rows of `findings`.
        after: by table, which columns are gone after the merge; None: as before.
        run_id: the run that records them.
    """
    new = []
    for row_table in row_tables(pipeline):
        table, columns = row_table.table.name, after[row_table.table.name]
        if columns is None:
            continue
        known = _known(before, table)
        went = {name: gone for name, gone in columns.gone.items() if name not in known}
        new += [_dropped(paths, row_table, name, gone, before) for name, gone in went.items()]
        again = findings.came_back(paths, table) if went else set()
        flapping = {name: gone for name, gone in went.items() if name in again} | columns.flapping
        new += [_flapping(table, name, last) for name, last in flapping.items()]
    return findings.record(paths, new, run_id, pipeline.source.format)


def _was_given(paths: TablePaths, row_table: RowTable, column: str, since: int, until: int) -> bool:
    """Say whether changes from one csn (inclusive) to another (exclusive) have a value of a column."""
    rows = history_reader.chosen(paths, row_table, f"_txloom_csn >= {since} and _txloom_csn < {until}")
    return bool(rows.column(column).null_count < rows.num_rows)


def _known(before: Iterable[dict[str, Any]], table: str) -> dict[str, dict[str, Any]]:
    """Return by column the open findings that report columns of a table as gone."""
    return {row["column"]: row for row in before if row["table"] == table and row["code"] in GONE}


def _flapping(table: str, column: str, last: Gone) -> Finding:
    evidence = "it went, came back and went again"
    return Finding(f.NULLS_OMITTED, table, column, last.csn, last.xid, evidence)


def _dropped(
    paths: TablePaths, row_table: RowTable, column: str, gone: Gone, before: Iterable[Mapping[str, Any]]
) -> Finding:
    """Return the finding of a column that is gone: renamed if an undeclared one first came after its last value."""
    table = row_table.table.name
    added = [row for row in before if (row["code"], row["table"]) == (f.ADDED, table) and row["since_csn"] <= gone.csn]
    came = [row["column"] for row in added if not _was_given(paths, row_table, column, row["since_csn"], gone.csn)]
    if came:
        evidence = f"inserts lack {column}; since its last value there is {', '.join(came)}"
        return Finding(f.RENAMED, table, column, gone.csn, gone.xid, evidence)
    return Finding(f.DROPPED, table, column, gone.csn, gone.xid, "an insert lacks it")
