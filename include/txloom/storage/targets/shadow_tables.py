"""Shadow tables: the rows that a backfill rebuilt beside the live ones, how they differ, and the state of each run."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
from pyarrow import fs

from txloom.config import names
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.committing import commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.small_tables import latest
from txloom.storage.delta.sql import instant_literal, sql_name, text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.stores.file_systems import filesystem_of
from txloom.storage.system_tables import BACKFILLS

KIND, WAS, DIGEST = (f"{names.SYSTEM_PREFIX}{name}" for name in ("kind", "was", "digest"))
INSERTED, UPDATED, SURPLUS, REPEATED = "inserted", "updated", "surplus", "repeated"
"""The kinds of differences. inserted: rows that the live table lacks. updated: rows that it holds with other values.
surplus: rows that only the live table has. repeated: rows that share their key with another one, so that nothing may be
written by it."""
DIFFERENCE = [pa.field(KIND, pa.string()), pa.field(WAS, pa.string()), pa.field(DIGEST, pa.int64())]
"""The columns of a table of differences beside those of the rebuilt row (of surplus: the live row). was: the live row,
as JSON, for some rows. digest: a hash of kind and values, which is summed over rows."""

TO_THE_END = 2**63 - 1
"""The to_csn of a backfill without an upper bound; no reader shows it as a number."""
EDITED = "the declaration changed"
"""The detail of each row that a merge writes because it rebuilds histories after an edit. No person started it."""
COPIED, COMPUTED = "copied", "computed"
"""The status of a row about source tables whose rows a merge copied out of another history after an edit, and about
current tables that it computed again. Such a merge replaces no shadow tables."""
WITHOUT_SHADOWS = "*"
"""The table of these rows, so that they are not taken for the state of a run that replaced the shadow tables."""


@dataclass(frozen=True)
class Rebuild:
    """A run that replaced the shadow tables, or a merge that copied or computed tables after an edit.

    Args:
        run_id: the run.
        status: its newest status; "" if it did not replace the shadow tables.
        at: when it had that status.
        is_edit: whether a merge rebuilt histories after an edit of the declaration; else it is a backfill.
        tables: of an edit, the source tables whose rows were rebuilt; none if an older version wrote the rows.
        is_replaced: whether another run replaced the shadow tables later.
        copied: of an edit, the source tables whose rows were copied out of another history.
        computed: of an edit, the current tables that were computed again.
    """

    run_id: str
    status: str
    at: datetime
    is_edit: bool
    tables: tuple[str, ...] = ()
    is_replaced: bool = False
    copied: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()

    @property
    def all_tables(self) -> list[str]:
        """Return the names of all tables that were rebuilt, copied or computed, each once."""
        return [*dict.fromkeys((*self.tables, *self.copied, *self.computed))]

    def __str__(self) -> str:
        """Describe what a merge did after an edit in words: whether it still runs, and with which tables.

        >>> print(Rebuild("r1", "rebuilding", datetime(2026, 1, 1), True, ("lines", "orders")))
        rebuilding after an edit: lines, orders
        >>> print(Rebuild("r1", "", datetime(2026, 1, 1), True, copied=("lines",), computed=("doc", "lines")))
        copied from another history after an edit: lines; computed again after an edit: doc, lines
        """
        parts = list[str]()
        if self.status:
            what = "rebuilding after an edit" + (" was interrupted" if self.is_replaced else "")
            what = "rebuilt after an edit" if self.status == "dropped" else what
            parts.append(f"{what}: {', '.join(self.tables)}" if self.tables else what)
        if self.copied:
            parts.append(f"copied from another history after an edit: {', '.join(self.copied)}")
        if self.computed:
            parts.append(f"computed again after an edit: {', '.join(self.computed)}")
        return "; ".join(parts)


def write(path: str, rows: pa.Table) -> None:
    """Replace the rows and the schema of a shadow table in one commit, or create it; raises LeaseTaken."""
    small_tables.overwrite(path, rows, schema_mode="overwrite")


def anew(path: str, schema: pa.Schema, key: Sequence[str]) -> Rewrite:
    """Empty a shadow table, or create it, and begin a commit that fills it; raises LeaseTaken.

    key: the columns by which its files are ordered.
    """
    write(path, schema.empty_table())
    return Rewrite.of(path, key)


def drop(paths: TablePaths, tables: Sequence[str]) -> int:
    """Remove the folders of the shadow tables and tables of differences of some tables; return how many there were."""
    dropped = 0
    for name in tables:
        for shadow in (names.shadow_table(name), names.difference_table(name)):
            filesystem, folder = filesystem_of(paths.table(shadow))
            if filesystem.get_file_info(folder).type == fs.FileType.Directory:
                filesystem.delete_dir(folder)
                dropped += 1
    return dropped


def note(paths: TablePaths, row: dict[str, Any]) -> None:
    """Append a row to `backfills` with the present time: the state of a backfill, or of one table in it.

    row: columns of BACKFILLS without `at`. A repeated call appends another row.
    """
    small_tables.append(paths.table(names.BACKFILLS), [{**row, "at": datetime.now(UTC)}], BACKFILLS)


def newest_run(paths: TablePaths) -> dict[str, Any] | None:
    """Return the newest row of the newest backfill, of which the shadow tables are; None before there was one."""
    return small_tables.newest(paths.table(names.BACKFILLS), "*", '"table" is null')


def note_edit(paths: TablePaths, run_id: str, status: str, tables: Sequence[str]) -> None:
    """Append a row to `backfills` about a rebuild after an edit, because it replaces the shadow tables of a backfill.

    Args:
        paths: the tables of the pipeline.
        run_id: the run of the merge.
        status: rebuilding, or dropped when the shadow tables are removed again.
        tables: the source tables whose rows are rebuilt.
    """
    row = {"run_id": run_id, "from_csn": 0, "to_csn": TO_THE_END, "status": status, "detail": EDITED}
    note(paths, row | {"state": json.dumps({"tables": sorted(tables)})})


def note_made(paths: TablePaths, run_id: str, status: str, tables: Collection[str]) -> None:
    """Append a row to `backfills` about tables that a merge made after an edit without shadow tables.

    Nothing is written without tables.

    Args:
        paths: the tables of the pipeline.
        run_id: the run of the merge.
        status: COPIED or COMPUTED.
        tables: the source tables that were copied, or the current tables that were computed.
    """
    if tables:
        state = json.dumps({"tables": sorted(tables)})
        note(paths, {"run_id": run_id, "table": WITHOUT_SHADOWS, "status": status, "detail": EDITED, "state": state})


def read_rebuilds(paths: TablePaths) -> list[Rebuild]:
    """Return all backfills, and what merges made after edits, the oldest first."""
    path = paths.table(names.BACKFILLS)
    columns = "run_id, status, at, detail, state"
    of_runs = '"table" is null and status is not null'
    known: dict[tuple[str, bool], Rebuild] = {}
    for row in reversed(small_tables.query(path, f"select {columns} from t where {of_runs} order by {latest(path)}")):
        is_edit = row["detail"] == EDITED
        before = known.pop((row["run_id"], is_edit), None)
        tables = json.loads(row["state"] or "{}").get("tables", []) if is_edit else []
        named = {*tables, *(before.tables if before else ())}
        made = Rebuild(row["run_id"], row["status"], row["at"], is_edit, tuple(sorted(named)), is_replaced=True)
        known[row["run_id"], is_edit] = made
    if known:
        last = next(reversed(known))
        known[last] = replace(known[last], is_replaced=False)
    where = f'"table" = {text_literal(WITHOUT_SHADOWS)} and detail = {text_literal(EDITED)}'
    for row in small_tables.query(path, f"select run_id, status, at, state from t where {where} order by at"):
        of_run = row["run_id"], True
        edit = known.pop(of_run, Rebuild(row["run_id"], "", row["at"], is_edit=True))
        edit, tables = replace(edit, at=max(edit.at, row["at"])), json.loads(row["state"])["tables"]
        if row["status"] == COPIED:
            edit = replace(edit, copied=tuple(sorted({*edit.copied, *tables})))
        else:
            edit = replace(edit, computed=tuple(sorted({*edit.computed, *tables})))
        known[of_run] = edit
    return sorted(known.values(), key=lambda each: each.at)


def repaired_since(paths: TablePaths, moment: datetime) -> list[dict[str, Any]]:
    """Return run_id and from_csn (0: from the beginning) of each backfill that changed current rows after a time."""
    changed = " or ".join(f"counts['{name}'] > 0" for name in ("inserts", "updates", "deletes"))
    repaired = f"status = 'applied' and \"table\" is null and at > {instant_literal(moment)} and ({changed})"
    sql = (
        f"select run_id, min(coalesce(from_csn, 0)) as from_csn from t where {repaired} group by run_id order by run_id"
    )
    return small_tables.query(paths.table(names.BACKFILLS), sql)


def compared(paths: TablePaths, run_id: str) -> list[dict[str, Any]]:
    """Return the newest row with status `compared` of each table in a backfill, in order of the tables' names."""
    path = paths.table(names.BACKFILLS)
    newest = f'row_number() over (partition by "table" order by {small_tables.latest(path)}) as n'
    of_run = f"run_id = {text_literal(run_id)} and status = 'compared' and \"table\" is not null"
    sql = f'select * from (select *, {newest} from t where {of_run}) where n = 1 order by "table"'
    return small_tables.query(path, sql)


def differences(paths: TablePaths, table: str, where: str, more: str = "") -> pa.Table:
    """Return rows of a table's differences; where: a SQL condition; more: what follows it, such as an order."""
    return arrow_tables.select(paths.table(names.difference_table(table)), f"select * from t where {where} {more}")


def counts(paths: TablePaths, table: str) -> tuple[dict[str, int], int]:
    """Return how many differences of each kind a table has, and the sum of their digests."""
    sql = f"select {KIND} as kind, count(*) as n, sum({DIGEST}) as digest from t group by 1"
    rows = small_tables.query(paths.table(names.difference_table(table)), sql)
    return {row["kind"]: row["n"] for row in rows}, sum(row["digest"] for row in rows)


def correct(path: str, rows: pa.Table, key: Sequence[str], columns: Sequence[str], about: dict[str, Any]) -> None:
    """Merge rows into a history in one commit: rows that it lacks are added, others get new values, none is deleted.

    A repeated call changes no value.

    Args:
        path: the history's path.
        rows: at least one; they are brought into the history's schema.
        key: the columns by which rows are matched; null matches null.
        columns: the columns that rows of the history get.
        about: the commit's userMetadata.

    Raises:
        LeaseTaken: another run holds the lease.
    """
    table = FENCE.opened(path)
    given = arrow_tables.conform(rows, arrow_tables.schema_of(table))
    properties = commit_properties(metadata=about)
    condition = " and ".join(f'(t."{name}" is not distinct from s."{name}")' for name in key)
    csn = cast("list[int]", given.column("_txloom_csn").unique().to_pylist())
    condition += f' and (t."_txloom_csn" between {min(csn)} and {max(csn)})'
    (
        table.merge(given, condition, source_alias="s", target_alias="t", commit_properties=properties)
        .when_matched_update({sql_name(name): f's."{name}"' for name in columns})
        .when_not_matched_insert({sql_name(name): f's."{name}"' for name in given.column_names})
        .execute()
    )


def newest_release(paths: TablePaths, history: str) -> int:
    """Return the number of the newest release in a history; 0 where there is none."""
    rows = small_tables.query(paths.table(history), "select max(_txloom_release) as release from t")
    return int((rows[0]["release"] if rows else 0) or 0)
