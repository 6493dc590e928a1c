"""Snapshots that a connector sends row by row over many landings: the table `source_snapshots`.

It has a row for each landing that had rows of a snapshot or ended one; a source without snapshots has no such table.
What is computed for a landing depends on the rows of earlier landings only, so that a repeated landing gets the same.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.events.envelope import FIRST_OF_TABLE, LAST_OF_SNAPSHOT, LAST_OF_TABLE, OF_SNAPSHOT
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_list, text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.sources.splits import LandingPlan
from txloom.storage.system_tables import SOURCE_SNAPSHOTS
from txloom.transactions.events import NOWHERE
from txloom.transactions.snapshots import Shown, Snapshots, advanced

_FLAGS = text_list((OF_SNAPSHOT, FIRST_OF_TABLE, LAST_OF_TABLE, LAST_OF_SNAPSHOT))
_OF_SNAPSHOT = f"kind = 'row' and detail in ({_FLAGS})"
_LOADS = text_list(names.LOADS)
_OF_STREAM = f"(kind = 'metadata' or kind = 'row' and op <> 'r') and topic not in ({_LOADS})"


@dataclass(frozen=True)
class SnapshotProgress:
    """The state of a source's snapshots after a landing."""

    snapshots: Snapshots = field(default_factory=Snapshots)
    since: datetime | None = None
    """When the open snapshots began; None where none is open."""
    initial: int | None = None
    """The csn of the whole snapshot that the stream began with; NOWHERE where the stream has events below its csn, None
    while no snapshot is whole."""


def note_left_out(pipeline: Pipeline, paths: TablePaths, number: int, at: datetime) -> None:
    """Record, before a landing is planned, that it leaves out some of what the source has.

    Nothing is written where no snapshot is open, or where it was recorded before.

    Args:
        pipeline: the declaration.
        paths: where the tables are.
        number: the landing.
        at: its time.
    """
    if _has_snapshots(pipeline) and progress(paths, number).snapshots.lowest is not None:
        rows = [{"landing": number, "at": at, "left_out": True}]
        small_tables.append(_path(paths), rows, SOURCE_SNAPSHOTS, once=(_write_id(paths, "plan"), number))


def advance(pipeline: Pipeline, paths: TablePaths, landing: LandingPlan) -> int | None:
    """Record what a landing's events show of snapshots, once.

    Returns:
        the csn that bounds valid-through; None where no snapshot is open.
    """
    if not _has_snapshots(pipeline):
        return None
    before = progress(paths, landing.number)
    shown = _shown(paths, landing.number)
    if not shown.rows and before.snapshots.lowest is None:
        return None
    everything = landing.reads_source and not _left_out(paths, landing.number)
    after = advanced(before.snapshots, shown, everything=everything)
    open_now = after.lowest is not None
    initial = before.initial
    if initial is None and not open_now:
        initial = _initial(paths, landing.number, before.snapshots.highest)
    since = None if not open_now else before.since or landing.at
    about = {"landing": landing.number, "at": landing.at, "left_out": False}
    row = {**about, **vars(after), "since": since, "initial": initial}
    small_tables.append(_path(paths), [row], SOURCE_SNAPSHOTS, once=(_write_id(paths, "shown"), landing.number))
    return after.bound


def progress(paths: TablePaths, before: int = 2**63 - 1) -> SnapshotProgress:
    """Return the state of snapshots before a landing; by default the newest state."""
    newest = f"where landing < {before} and not left_out order by landing desc limit 1"
    rows = small_tables.query(_path(paths), f"select * from t {newest}")
    if not rows:
        return SnapshotProgress()
    row = rows[0]
    bounds = {name: row[name] for name in ("rows", "lowest", "highest", "ended", "closed")}
    return SnapshotProgress(Snapshots(**bounds), row["since"], row["initial"])


def initial(paths: TablePaths, landing: int) -> int:
    """Return the csn of the whole snapshot that the stream began with, as of after a landing; NOWHERE without one."""
    csn = progress(paths, landing + 1).initial
    return NOWHERE if csn is None else csn


def given_up(pipeline: Pipeline, paths: TablePaths, number: int) -> tuple[int, list[str]] | None:
    """Return the snapshots that a connector gave up and that a landing replaced by the initial snapshot it closed.

    Rows that only the snapshots that were given up had are not deleted by any event, because no stream came before. For
    snapshots beside a stream there is nothing to do: the stream deletes such rows, and a snapshot may be of some rows.

    Returns:
        the csn of the initial snapshot, and the tables of which the others had rows, also rows that came late; None
        where the landing closed no initial snapshot, or no other one was given up before it.
    """
    if not _has_snapshots(pipeline):
        return None
    before = progress(paths, number).snapshots
    if before.highest is None or before.lowest is None:
        return None
    after = progress(paths, number + 1)
    if after.snapshots.lowest is not None or after.initial != before.highest:
        return None
    late = _shown(paths, number).lowest
    lowest = before.lowest if late is None else min(before.lowest, max(late, before.closed + 1))
    if lowest == before.highest:
        return None
    ended = f"select csn from t where kind = 'row' and detail = '{LAST_OF_SNAPSHOT}'"
    of_given_up = f"{_OF_SNAPSHOT} and csn >= {lowest} and csn < {before.highest} and csn not in ({ended})"
    sql = f'select distinct "table" from t where {of_given_up} and "table" is not null order by "table"'
    return before.highest, [row["table"] for row in small_tables.query(paths.change_events, sql)]


def taken_twice(pipeline: Pipeline, paths: TablePaths, number: int) -> list[tuple[str, int, int]]:
    """Return (table, csn, times) of tables without a key that a snapshot, closed by a landing, began more than once.

    A connector that dies in a snapshot and begins it again while the source commits nothing takes both at one csn. Rows
    with a key are equal in both; of rows without a key it cannot be known which of the two they belong to.
    """
    keyless = [table.name for table in pipeline.tables if not table.key]
    if not keyless or not _has_snapshots(pipeline):
        return []
    before = progress(paths, number).snapshots
    if before.lowest is None or progress(paths, number + 1).snapshots.lowest is not None:
        return []
    first, last = (
        f"count(*) filter (where detail in ({text_list(flags)}))"
        for flags in ((FIRST_OF_TABLE,), (LAST_OF_TABLE, LAST_OF_SNAPSHOT))
    )
    repeated = f"{_OF_SNAPSHOT} and csn between {before.lowest} and {before.highest}"
    repeated += f' and "table" in ({text_list(keyless)})'
    sql = f'select "table", csn, greatest({first}, {last}) as times from t where {repeated} group by "table", csn'
    rows = small_tables.query(paths.change_events, f'{sql} order by csn, "table"')
    return [(row["table"], row["csn"], row["times"]) for row in rows if row["times"] > 1]


def sent(pipeline: Pipeline, paths: TablePaths, table: str, since: int, until: int) -> list[int]:
    """Return the csns of snapshots that a connector sent whole and that had rows of a table.

    since, until: the first and the last csn that are considered.
    """
    if not _has_snapshots(pipeline):
        return []
    whole = min(until, progress(paths).snapshots.closed)
    where = f'{_OF_SNAPSHOT} and "table" = {text_literal(table)} and csn between {since} and {whole}'
    return [row["csn"] for row in small_tables.query(paths.change_events, f"select distinct csn from t where {where}")]


def _shown(paths: TablePaths, number: int) -> Shown:
    """Return what the events of one landing show of snapshots; those of other landings are not read."""
    of_snapshot = f"filter (where {_OF_SNAPSHOT})"
    columns = {
        "rows": f"count(*) {of_snapshot}",
        "lowest": f"min(csn) {of_snapshot}",
        "highest": f"max(csn) {of_snapshot}",
        "last": f"max(csn) filter (where kind = 'row' and detail = '{LAST_OF_SNAPSHOT}')",
        "stream": f"max(csn) filter (where {_OF_STREAM})",
    }
    selected = ", ".join(f'{sql} as "{name}"' for name, sql in columns.items())
    row: dict[str, Any] = small_tables.query(paths.change_events, f"select {selected} from t where landing = {number}")[
        0
    ]
    ends = {name: NOWHERE if row[name] is None else row[name] for name in ("last", "stream")}
    return Shown(row["rows"], row["lowest"], row["highest"], **ends)


def _initial(paths: TablePaths, number: int, csn: int | None) -> int:
    """Return the csn of a snapshot that is whole now; NOWHERE where the stream has events below it.

    Then valid-through waits until the stream has reached the csn, because later events may lie below it too.
    """
    if csn is None:
        return NOWHERE
    below = f"select 1 as n from t where csn < {csn} and landing <= {number} and {_OF_STREAM} limit 1"
    return NOWHERE if small_tables.query(paths.change_events, below) else csn


def _left_out(paths: TablePaths, number: int) -> bool:
    return bool(small_tables.query(_path(paths), f"select 1 as n from t where landing = {number} and left_out"))


def _has_snapshots(pipeline: Pipeline) -> bool:
    return pipeline.source.format == "debezium"


def _path(paths: TablePaths) -> str:
    return paths.table(names.SOURCE_SNAPSHOTS)


def _write_id(paths: TablePaths, step: str) -> str:
    return names.write_id(paths.pipeline, f"{names.SOURCE_SNAPSHOTS}.{step}", 0)
