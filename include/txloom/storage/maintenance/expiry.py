"""What is old enough to be removed: landings whose messages are, rows on single runs, replaced checkpoints."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from txloom.config import names
from txloom.storage.buffer import checkpoints
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.committing import commit_properties
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.sql import instant_literal, int_list, text_list
from txloom.storage.paths import TablePaths
from txloom.storage.runs.ledger import CARRIED, summed
from txloom.storage.stores.file_systems import filesystem_of
from txloom.storage.system_tables import ENTERED, LEDGER

SUMMED = ("land_events", checkpoints.STEP)
"""Steps whose counts the balance adds up over all runs: removed rows are carried forward as one row for each step."""
HAS_LANDED = f"step = 'land_events' and run_id <> '{CARRIED}' and map_extract(counts, 'landed')[1] > 0"
"""The SQL condition of a landing that brought something, from the source or by a redrive."""
NO_LANDING = -1
KEPT = ("accept_loss",)
"""Steps whose rows record decisions of people: they are never removed."""
NEWEST = {
    names.EXPECTATION_RESULTS: ("checked_at", "expectation, success"),
    names.TABLE_STATISTICS: ("measured_at", '"table"'),
    names.BACKFILLS: ("at", '"table"'),
}
"""For each table with rows on runs: the column of their time, and the columns for each value of which the newest row
stays.
"""


def expired_landing(paths: TablePaths, before: datetime, since: int = 0) -> int:
    """Return the newest landing that is older than a time and buffered, with all landings before it.

    since: a landing that is as old; it is returned where there is no newer one. 0: none.
    """
    seen = buffer_state(paths)
    if seen is None:
        return since
    limit = f"landing > {since} and landing <= {seen.landing} and kind = 'clock'"
    young = f"select min(landing) as n from t where {limit} and landed_at >= {instant_literal(before)}"
    first = small_tables.query(paths.change_events, young)[0]["n"]
    below = "" if first is None else f" and landing < {first}"
    rows = small_tables.query(paths.change_events, f"select max(landing) as n from t where {limit}{below}")
    return int(rows[0]["n"] or since)


def shorten_ledger(paths: TablePaths, before: datetime) -> int:
    """Remove the ledger's rows from before a time, in one commit; return by how many the rows decreased.

    What the balance adds up is carried forward, one row for each step and checkpoint epoch; the newest row of each
    step, its newest good row, and the newest landing that brought something from the source stay as they are.
    """
    try:
        table = FENCE.opened(paths.table(names.LEDGER))
    except TableNotFoundError:
        return 0
    is_old = f"(at < {instant_literal(before)} and step not in ({text_list(KEPT)}))"
    redriven = int_list([*open_letters.redrives(paths), NO_LANDING])
    kinds = {"any": "true", "good": "detail is null", "landed": f"{HAS_LANDED} and batch not in ({redriven})"}
    flags = ", ".join(f"coalesce({condition}, false) as is_{kind}" for kind, condition in kinds.items())
    old = small_tables.ask(table, f"select *, {flags} from t where {is_old}")
    if not old:
        return 0
    spared = _newest_of(old, table, f"not {is_old}", kinds)
    gone = [row for row in old if id(row) not in {id(each) for each in spared}]
    carried = _carried([row for row in gone if row["step"] in SUMMED])
    if len(gone) <= len(carried):
        return 0
    stays = arrow_tables.ask({"t": table}, f"select * from t where not {is_old}")
    _rewrite(table, [arrow_tables.conform(stays, LEDGER), pa.Table.from_pylist([*carried, *spared], LEDGER)])
    return len(gone) - len(carried)


def _newest_of(
    old: Sequence[dict[str, Any]], table: DeltaTable, others: str, kinds: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return those of the old rows than which no other row of their step and of one kind is newer.

    Args:
        old: rows of the ledger; each says by `is_KIND` whether it is of a kind.
        table: the ledger.
        others: the condition of all other rows.
        kinds: by kind, the condition of its rows.
    """
    entered = f"coalesce({ENTERED}, -1)"
    sums = ", ".join(f"max(case when {condition} then {entered} end) as {kind}" for kind, condition in kinds.items())
    rows = small_tables.ask(table, f"select step, {sums} from t where {others} group by step")
    newer = {(row["step"], kind): row[kind] for row in rows for kind in kinds if row[kind] is not None}
    last = [
        (kind, max(lines, key=_at))
        for kind in kinds
        for lines in _by(["step"], [row for row in old if row[f"is_{kind}"]]).values()
    ]
    newest = [row for kind, row in last if _at(row)[0] > newer.get((row["step"], kind), -2)]
    return list({id(row): row for row in newest}.values())


def _rewrite(table: DeltaTable, rows: Sequence[pa.Table]) -> None:
    """Replace the rows of a table at its opened version; rows that were appended since stay."""
    left = pa.concat_tables(rows)
    write_deltalake(table, left, mode="overwrite", schema_mode="merge", commit_properties=commit_properties())


def _carried(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return sums of rows, one for each step and checkpoint epoch."""
    return [_sum(lines) for lines in _by(("step", "generation"), sorted(rows, key=_at)).values()]


def _sum(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row that stands for rows in order of time: the first one, with time, csn and batch of the last."""
    newest = {name: rows[-1].get(name) for name in ("at", "valid_through", ENTERED)}
    batch = max(row["batch"] for row in rows)
    return {**rows[0], **newest, "run_id": CARRIED, "batch": batch, "counts": summed(rows)}


def _by(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in columns), []).append(row)
    return groups


def _at(row: dict[str, Any]) -> tuple[int, datetime]:
    """Return the key that orders rows by their entry; rows from before entries were numbered are older."""
    return row.get(ENTERED) or -1, row["at"]


def drop_reports(paths: TablePaths, before: datetime) -> int:
    """Remove rows on runs from before a time, and closed incidents; return how many. What is still open stays."""
    moment = instant_literal(before)
    removed = small_tables.drop(paths.table(names.INCIDENTS), f"is_over and closed_at < {moment}")
    for table, (when, what) in NEWEST.items():
        newest = small_tables.query(paths.table(table), f"select max({when}) as at from t group by {what}")
        spared = ", ".join(instant_literal(row["at"]) for row in newest)
        removed += (
            small_tables.drop(paths.table(table), f"{when} < {moment} and {when} not in ({spared})") if spared else 0
        )
    return removed


def drop_run_folders(paths: TablePaths, kind: str, before: datetime) -> int:
    """Remove the folders of runs in which nothing was written since a time; return how many.

    kind: the folder that holds them, `names.REPORTS` or `names.RUNS`.
    """
    filesystem, root = filesystem_of(paths.table(kind))
    inside = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True))
    folders = [each for each in inside if each.type == fs.FileType.Directory]
    # A folder in which a file was made since is not looked into; a store without folders has no time of one.
    old = [each for each in folders if each.mtime is None or each.mtime < before]
    removed = 0
    for folder in old:
        files = filesystem.get_file_info(fs.FileSelector(folder.path, recursive=True))
        if all(file.mtime is None or file.mtime < before for file in files):
            filesystem.delete_dir(folder.path)
            removed += 1
    return removed


def drop_checkpoints(paths: TablePaths, retain: timedelta) -> int:
    """Remove the folders of checkpoint epochs that were replaced longer ago than `retain`; return how many."""
    newest = checkpoints.current_epoch(paths.warehouse, paths.pipeline)
    filesystem, _ = filesystem_of(checkpoints.root(paths.warehouse, paths.pipeline))
    folders = checkpoints.epoch_folders(paths.warehouse, paths.pipeline)
    old = [each for epoch, each in folders.items() if epoch < newest]
    limit = datetime.now(UTC) - retain
    expired = [each for each in old if _touched(filesystem, each) < limit]
    for each in expired:
        filesystem.delete_dir(each.path)
    return len(expired)


def _touched(filesystem: fs.FileSystem, folder: fs.FileInfo) -> datetime:
    """Return when a file of a folder was last written."""
    files = filesystem.get_file_info(fs.FileSelector(folder.path, recursive=True))
    times = (file.mtime for file in files if file.is_file and file.mtime is not None)
    return max(times, default=datetime.min.replace(tzinfo=UTC))
