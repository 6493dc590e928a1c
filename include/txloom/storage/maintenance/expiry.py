"""What is old enough to be forgotten: messages of released events, accounts of single runs, replaced checkpoints.

Of an event only what it said goes. That it came stays: its identity, fingerprint, coordinates and numbers are what
tells a duplicate years later, and what a lost buffer is rebuilt from (ADR 19).
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from txloom.config import names
from txloom.storage.buffer import checkpoints
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.delta import small_tables, spark_tables
from txloom.storage.delta.commits import commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.sql import instant_literal
from txloom.storage.paths import TablePaths, filesystem_of
from txloom.storage.runs.ledger import summed
from txloom.storage.system_tables import ENTERED, LEDGER

SUMMED = ("land_events", checkpoints.STEP)
"""Steps whose counts are added up over all runs: what is taken away of them is carried forward as one row each."""
KEPT = ("accept_loss",)
"""Steps whose rows say what somebody decided: they stay."""
CARRIED = "carried forward"
"""The run id of a row that stands for older ones."""
NEWEST = {
    names.EXPECTATION_RESULTS: ("checked_at", "expectation, success"),
    names.TABLE_STATISTICS: ("measured_at", '"table"'),
    names.BACKFILLS: ("at", '"table"'),
}
"""Of each table of accounts: when a row was written, and of what the newest row is kept however old it is."""


def expired_landing(paths: TablePaths, before: datetime) -> int:
    """Return the newest landing that is older than a moment, together with all before it, and buffered; 0: none."""
    seen = buffer_state(paths)
    if seen is None:
        return 0
    limit = f"landing <= {seen.landing} and kind = 'clock'"
    young = f"select min(landing) as n from t where {limit} and landed_at >= {instant_literal(before)}"
    first = small_tables.query(paths.change_events, young)[0]["n"]
    below = "" if first is None else f" and landing < {first}"
    rows = small_tables.query(paths.change_events, f"select max(landing) as n from t where {limit}{below}")
    return int(rows[0]["n"] or 0)


def forget_messages(spark: SparkSession, paths: TablePaths, landing: int) -> int:
    """Take the messages away of rows that were landed up to a landing and released, or that nobody watches.

    Returns how many. What waits or is dead keeps its message: it may still be released.
    """
    path = paths.change_events
    said = f"kind = 'row' and landing <= {landing} and value is not null"
    if not small_tables.query(path, f"select 1 from t where {said} limit 1"):
        return 0
    old = spark_tables.read(spark, path).where(said).select("landing", "row", "transaction_id", "table")
    released = _released(spark, paths)
    watched = old.where("`table` is not null").join(released, "transaction_id", "left_semi")
    gone = spark_tables.materialised(watched.unionByName(old.where("`table` is null")).select("landing", "row"))
    try:
        count = gone.count()
        if count:
            spark_tables.fence(spark, path)
            about = json.dumps({"expired": landing, "rows": count})
            spark.conf.set(spark_tables.USER_METADATA, about)
            same = f"t.landing = s.landing and t.row = s.row and t.landing <= {landing}"
            target = SparkTable.forPath(spark, path).alias("t")
            nothing = {name: F.lit(None) for name in ("value", "headers")}
            target.merge(gone.alias("s"), same).whenMatchedUpdate(set=nothing).execute()
            spark_tables.refuse_unwritten(path, about)
        return count
    finally:
        spark_tables.unfence(spark)


def _released(spark: SparkSession, paths: TablePaths) -> DataFrame:
    finished = spark_tables.read(spark, paths.table(names.TRANSACTIONS))
    return finished.where("status = 'released'").select("transaction_id").distinct()


def shorten_ledger(paths: TablePaths, before: datetime) -> int:
    """Take the ledger's rows from before a moment away, in one commit; return how many fewer there are.

    What the balance adds up is carried forward, one row for each step and generation; the newest row of each step,
    and the newest that is good, stay as they are.
    """
    try:
        table = FENCE.opened(paths.table(names.LEDGER))
    except TableNotFoundError:
        return 0
    rows = small_tables.ask(table, "select * from t")
    good = [row for row in rows if row["detail"] is None]
    newest = [max(lines, key=_at) for chosen in (rows, good) for lines in _by(["step"], chosen).values()]
    spared = {id(row) for row in newest}
    old = [r for r in rows if r["at"] < before and r["step"] not in KEPT and id(r) not in spared]
    carried = _carried([row for row in old if row["step"] in SUMMED])
    if len(old) <= len(carried):
        return 0
    gone = {id(row) for row in old}
    _rewrite(table, [*carried, *(row for row in rows if id(row) not in gone)])
    return len(old) - len(carried)


def _rewrite(table: DeltaTable, rows: list[dict[str, Any]]) -> None:
    """Replace the rows that a table has at its version; what was appended since stays."""
    left = pa.Table.from_pylist(rows, LEDGER)
    write_deltalake(table, left, mode="overwrite", schema_mode="merge", commit_properties=commit_properties())


def _carried(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add rows up, one for each step and generation."""
    return [_sum(lines) for lines in _by(("step", "generation"), sorted(rows, key=_at)).values()]


def _sum(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row that stands for rows in the order of time: the first one, as far as the last has come."""
    newest = {name: rows[-1].get(name) for name in ("at", "valid_through", ENTERED)}
    batch = max(row["batch"] for row in rows)
    return {**rows[0], **newest, "run_id": CARRIED, "batch": batch, "counts": summed(rows)}


def _by(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in columns), []).append(row)
    return groups


def _at(row: dict[str, Any]) -> tuple[int, datetime]:
    """Return where a row stands in the order of entries; rows of before they were numbered are older."""
    return row.get(ENTERED) or -1, row["at"]


def drop_reports(paths: TablePaths, before: datetime) -> int:
    """Take accounts of runs from before a moment away; return how many rows. What is not over yet stays."""
    moment = instant_literal(before)
    gone = small_tables.drop(paths.table(names.INCIDENTS), f"is_over and closed_at < {moment}")
    for table, (when, what) in NEWEST.items():
        newest = small_tables.query(paths.table(table), f"select max({when}) as at from t group by {what}")
        spared = ", ".join(instant_literal(row["at"]) for row in newest)
        gone += (
            small_tables.drop(paths.table(table), f"{when} < {moment} and {when} not in ({spared})") if spared else 0
        )
    return gone


def drop_checkpoints(paths: TablePaths, retain: timedelta) -> int:
    """Remove folders of generations that were replaced longer ago than `retain`; return how many."""
    newest = checkpoints.current_epoch(paths.warehouse, paths.pipeline)
    filesystem, root = filesystem_of(checkpoints.root(paths.warehouse, paths.pipeline))
    folders = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True))
    old = [each for each in folders if each.base_name[1:].isdigit() and int(each.base_name[1:]) < newest]
    limit = datetime.now(UTC) - retain
    gone = [each for each in old if _touched(filesystem, each) < limit]
    for each in gone:
        filesystem.delete_dir(each.path)
    return len(gone)


def _touched(filesystem: fs.FileSystem, folder: fs.FileInfo) -> datetime:
    """Return when a file of a folder was last written."""
    files = filesystem.get_file_info(fs.FileSelector(folder.path, recursive=True))
    return max((file.mtime for file in files if file.is_file), default=datetime.min.replace(tzinfo=UTC))
