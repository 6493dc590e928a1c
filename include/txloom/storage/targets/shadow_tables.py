"""Shadow tables: what a backfill rebuilt beside the live tables, what differs from them, and the notes of each run."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from txloom.config import names
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.commits import commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.sql import instant_literal, sql_name, text_literal
from txloom.storage.paths import TablePaths, filesystem_of
from txloom.storage.system_tables import BACKFILLS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KIND, WAS, DIGEST = (f"{names.SYSTEM_PREFIX}{name}" for name in ("kind", "was", "digest"))
INSERTED, UPDATED, SURPLUS, REPEATED = "inserted", "updated", "surplus", "repeated"
"""What a live table lacks, holds differently, and has although the rebuilt one does not; and rows that cannot be told
from another by what is their key, so that nothing may be written by it."""
DIFFERENCE = [pa.field(KIND, pa.string()), pa.field(WAS, pa.string()), pa.field(DIGEST, pa.int64())]
"""What a row of a table of differences has beside the rebuilt row (of surplus: the live one). was: the live row before,
as JSON, of some; digest: of kind and values, to add up."""


def write(path: str, rows: pa.Table) -> None:
    """Replace a shadow table by rows, in one commit."""
    small_tables.overwrite(path, rows, schema_mode="overwrite")


def write_frame(path: str, frame: "DataFrame") -> None:
    """Replace a shadow table by what Spark computes, in one commit."""
    from txloom.storage.delta import spark_tables

    spark_tables.fence(frame.sparkSession, path)
    try:
        frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    finally:
        spark_tables.unfence(frame.sparkSession)


def drop(paths: TablePaths, tables: Sequence[str]) -> int:
    """Remove shadow tables; return how many there were."""
    dropped = 0
    for name in tables:
        for shadow in (names.shadow_table(name), names.difference_table(name)):
            filesystem, folder = filesystem_of(paths.table(shadow))
            if filesystem.get_file_info(folder).type == fs.FileType.Directory:
                filesystem.delete_dir(folder)
                dropped += 1
    return dropped


def note(paths: TablePaths, row: dict[str, Any]) -> None:
    """Write down what became of a backfill, or of one table in it."""
    small_tables.append(paths.table(names.BACKFILLS), [{**row, "at": datetime.now(UTC)}], BACKFILLS)


def newest_run(paths: TablePaths) -> dict[str, Any] | None:
    """Return the newest note of the newest backfill: its shadows are those that lie there."""
    return small_tables.newest(paths.table(names.BACKFILLS), "*", '"table" is null')


def repaired_since(paths: TablePaths, moment: datetime) -> list[dict[str, Any]]:
    """Return run_id and from_csn of each backfill that changed rows of current tables since a moment."""
    changed = " or ".join(f"counts['{name}'] > 0" for name in ("inserts", "updates", "deletes"))
    repaired = f"status = 'applied' and \"table\" is null and at > {instant_literal(moment)} and ({changed})"
    sql = (
        f"select run_id, min(coalesce(from_csn, 0)) as from_csn from t where {repaired} group by run_id order by run_id"
    )
    return small_tables.query(paths.table(names.BACKFILLS), sql)


def compared(paths: TablePaths, run_id: str) -> list[dict[str, Any]]:
    """Return the newest comparison of each table in a backfill, by the table's name."""
    path = paths.table(names.BACKFILLS)
    newest = f'row_number() over (partition by "table" order by {small_tables.latest(path)}) as n'
    of_run = f"run_id = {text_literal(run_id)} and status = 'compared' and \"table\" is not null"
    sql = f'select * from (select *, {newest} from t where {of_run}) where n = 1 order by "table"'
    return small_tables.query(path, sql)


def differences(paths: TablePaths, table: str, where: str, more: str = "") -> pa.Table:
    """Return rows of a table's differences."""
    return arrow_tables.select(paths.table(names.difference_table(table)), f"select * from t where {where} {more}")


def counts(paths: TablePaths, table: str) -> tuple[dict[str, int], int]:
    """Return how many rows of each kind differ in a table, and the digest of them all."""
    sql = f"select {KIND} as kind, count(*) as n, sum({DIGEST}) as digest from t group by 1"
    rows = small_tables.query(paths.table(names.difference_table(table)), sql)
    return {row["kind"]: row["n"] for row in rows}, sum(row["digest"] for row in rows)


def correct(path: str, rows: pa.Table, key: Sequence[str], columns: Sequence[str], about: dict[str, Any]) -> None:
    """Bring rows into a history in one commit: those that it lacks are added, others take the columns; none goes.

    about: what the commit says of itself.
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
    """Return the number of the newest release in a history: what it holds is settled up to there."""
    rows = small_tables.query(paths.table(history), "select max(_txloom_release) as release from t")
    return int((rows[0]["release"] if rows else 0) or 0)


def live(path: str, schema: pa.Schema, where: str) -> pa.Table:
    """Return rows of a live table in its declared columns; none where it does not exist."""
    try:
        known = small_tables.schema_of(path).names
    except TableNotFoundError:
        return schema.empty_table()
    columns = ", ".join(sql_name(name) for name in schema.names if name in known)
    return arrow_tables.conform(arrow_tables.select(path, f"select {columns} from t where {where}"), schema)
