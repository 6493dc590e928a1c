"""Snapshots that a connector sends row by row over many landings: the table `source_snapshots`.

It has a row for each landing that had rows of a snapshot or ended one, and for one that left something out before any
row was landed; a source without snapshots has no others.
What is computed for a landing depends on the rows of earlier landings only, so that a repeated landing gets the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import BeforeHistory
from txloom.events.envelope import FIRST_OF_TABLE, LAST_OF_SNAPSHOT, LAST_OF_TABLE, OF_AHEAD
from txloom.storage.delta import schema_evolution, small_tables
from txloom.storage.delta.sql import instant_literal, text_list, text_literal
from txloom.storage.landing import retaken_snapshots
from txloom.storage.landing.retaken_snapshots import OF_ROWS_BESIDE, OF_WHOLE_TABLES, Retaken, SnapshotChange
from txloom.storage.paths import TablePaths
from txloom.storage.sources.splits import LandingPlan
from txloom.storage.system_tables import SOURCE_SNAPSHOTS
from txloom.transactions.events import NOWHERE
from txloom.transactions.snapshots import Shown, Snapshots, advanced

REPLACES = f"{names.SYSTEM_PREFIX}snapshot:"
"""The prefix of the ids of transactions that empty tables which a snapshot replaces; the landing's number follows."""
_LOADS = text_list(names.LOADS)
OF_STREAM = f"(kind = 'metadata' or kind = 'row' and op <> 'r') and topic not in ({_LOADS})"


@dataclass(frozen=True)
class SnapshotProgress:
    """The state of a source's snapshots after a landing."""

    snapshots: Snapshots = field(default_factory=Snapshots)
    since: datetime | None = None
    """When the open snapshots began; None where none is open."""
    initial: int | None = None
    """The csn of the newest whole snapshot that the stream began with, or began anew with; NOWHERE where the stream has
    events below its csn, None while no snapshot is whole."""
    newest: int | None = None
    """The highest csn of any snapshot; None where an older version wrote the state."""


@dataclass(frozen=True)
class Advance:
    """What a landing changes. bound: the csn that bounds valid-through; None: nothing does.

    begun: the csn of the snapshot that the stream begins with, where the landing closes it. retaken: the snapshots
    beside the stream that it closes, in commit order. read_beside: whether it has rows of an incremental one. ahead:
    whether it has rows that may be ahead of the stream.
    """

    bound: int | None = None
    begun: int | None = None
    retaken: tuple[Retaken, ...] = ()
    read_beside: bool = False
    ahead: bool = False


def note_left_out(pipeline: Pipeline, paths: TablePaths, number: int, at: datetime) -> None:
    """Record, before a landing is planned, that it leaves out some of what the source has.

    Nothing is written where it was recorded before, or where it cannot matter: rows were landed, and no snapshot is
    open.

    Args:
        pipeline: the declaration.
        paths: where the tables are.
        number: the landing.
        at: its time.
    """
    if _has_snapshots(pipeline) and (progress(paths, number).snapshots.lowest is not None or not _has_rows(paths)):
        rows = [{"landing": number, "at": at, "left_out": True}]
        small_tables.append(_path(paths), rows, SOURCE_SNAPSHOTS, once=(_write_id(paths, "plan"), number))


def advance(pipeline: Pipeline, paths: TablePaths, landing: LandingPlan, shown_through: Callable[[], int]) -> Advance:
    """Record what a landing's events show of snapshots, once; a repeated call returns the same.

    shown_through: returns up to where the newest cut shows the source.
    """
    if not _has_snapshots(pipeline):
        return Advance()
    before = progress(paths, landing.number)
    shown = _shown(paths, landing.number)
    if not shown.rows and before.snapshots.lowest is None:
        is_unknown = before == SnapshotProgress() and landing.reads_source and _may_begin(paths, landing.number)
        bound = NOWHERE if is_unknown else None
        return Advance(bound, read_beside=shown.beside > 0, ahead=shown.ahead > 0)
    everything = landing.reads_source and not _left_out(paths, landing.number)
    after = advanced(before.snapshots, shown, everything=everything)
    open_now = after.lowest is not None
    initial = before.initial
    if initial is None and not open_now:
        initial = _initial(paths, landing.number, before.snapshots.highest)
    begun = None
    if before.initial is None and initial not in (None, NOWHERE):
        begun = _first_whole(paths, landing.number, before.snapshots)
    change = SnapshotChange(landing.number, before.snapshots, after, shown, begun)
    retaken = retaken_snapshots.retaken(pipeline, paths, change, shown_through) if landing.reads_source else ()
    initial = max((each.csn for each in retaken if each.replaced), default=initial)
    since = None if not open_now else before.since or landing.at
    about = {"landing": landing.number, "at": landing.at, "left_out": False}
    known = (before.newest, before.snapshots.highest, shown.highest)
    newest = max((csn for csn in known if csn is not None), default=None)
    fresh = retaken_snapshots.fresh(paths, landing.number) if shown.rows else []
    mixed = retaken_snapshots.mixed(paths, change)
    row = {**about, **vars(after), "since": since, "initial": initial, "newest": newest, "fresh": fresh, "mixed": mixed}
    schema_evolution.ensure(_path(paths), SOURCE_SNAPSHOTS)
    small_tables.append(_path(paths), [row], SOURCE_SNAPSHOTS, once=(_write_id(paths, "shown"), landing.number))
    return Advance(after.bound, begun, retaken, shown.beside > 0, shown.ahead > 0)


def progress(paths: TablePaths, before: int = 2**63 - 1) -> SnapshotProgress:
    """Return the state of snapshots before a landing; by default the newest state."""
    newest = f"where landing < {before} and not left_out order by landing desc limit 1"
    rows = small_tables.query(_path(paths), f"select * from t {newest}")
    if not rows:
        return SnapshotProgress()
    row = rows[0]
    bounds = {name: row[name] for name in ("rows", "lowest", "highest", "ended", "closed")}
    return SnapshotProgress(Snapshots(**bounds), row["since"], row["initial"], row.get("newest"))


def refuse_mixed(pipeline: Pipeline, paths: TablePaths, csn: int) -> None:
    """Raise BeforeHistory for a csn between a snapshot that the connector gave up and the one that it took instead."""
    if not _has_snapshots(pipeline):
        return
    for row in small_tables.query(_path(paths), "select * from t where not left_out"):
        for each in row.get("mixed") or ():
            if each["since"] <= csn < each["until"]:
                raise BeforeHistory(
                    f"as of csn {csn}: the connector gave up its snapshot at csn {each['since']} and took another one "
                    f"at csn {each['until']}; from there on every state can be read"
                )


def closed_before(pipeline: Pipeline, paths: TablePaths, number: int) -> tuple[int, int] | None:
    """Return the csn of the snapshot that the stream began with, and that of the last one that is closed; None: none.

    The first one is NOWHERE where the stream has events below its first snapshot.

    Args:
        pipeline: the declaration.
        paths: where the tables are.
        number: the landing before which they were closed.
    """
    if not _has_snapshots(pipeline):
        return None
    closed = progress(paths, number).snapshots.closed
    sql = f"select initial from t where landing < {number} and initial is not null order by landing limit 1"
    begun = small_tables.query(_path(paths), sql)
    if not begun or begun[0]["initial"] == NOWHERE:
        return (NOWHERE, closed) if begun else None
    initial = begun[0]["initial"]
    first = _first_whole(paths, number - 1, Snapshots(lowest=0, highest=initial)) or initial
    # If the stream had begun before the first complete snapshot, that one replaced tables like any later one.
    return _initial(paths, number - 1, first), closed


def given_up(paths: TablePaths, number: int, begun: int) -> list[str]:
    """Return the tables of snapshots that a connector gave up before the one that its stream begins with.

    Rows that only those had are not deleted by any event, because no stream came before. Those beside a stream are
    `retaken_snapshots`.

    Args:
        paths: where the tables are.
        number: the landing that closes the snapshot.
        begun: the snapshot's csn.
    """
    before = progress(paths, number).snapshots
    assert before.lowest is not None
    late = _shown(paths, number).lowest
    lowest = before.lowest if late is None else min(before.lowest, max(late, before.closed + 1))
    if lowest == begun:
        return []
    ended = f"select csn from t where kind = 'row' and detail = '{LAST_OF_SNAPSHOT}'"
    of_given_up = f"{OF_WHOLE_TABLES} and csn >= {lowest} and csn < {begun} and csn not in ({ended})"
    sql = f'select distinct "table" from t where {of_given_up} and "table" is not null order by "table"'
    return [row["table"] for row in small_tables.query(paths.change_events, sql)]


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
    repeated = f"{OF_WHOLE_TABLES} and csn between {before.lowest} and {before.highest}"
    repeated += f' and "table" in ({text_list(keyless)})'
    sql = f'select "table", csn, greatest({first}, {last}) as times from t where {repeated} group by "table", csn'
    rows = small_tables.query(paths.change_events, f'{sql} order by csn, "table"')
    return [(row["table"], row["csn"], row["times"]) for row in rows if row["times"] > 1]


def has_beside(paths: TablePaths, after: int) -> bool:
    """Return whether a landing after the landing `after` has rows that the connector read beside its stream."""
    sql = f"select 1 as n from t where landing > {after} and {OF_ROWS_BESIDE} limit 1"
    return bool(small_tables.query(paths.change_events, sql))


def sent(
    pipeline: Pipeline, paths: TablePaths, table: str, since: int, until: int, after: datetime | None = None
) -> list[int]:
    """Return the csns of snapshots that a connector sent whole and that had rows of a table.

    since, until: the first and the last csn that are considered. after: only rows that were landed later; None: all.
    """
    if not _has_snapshots(pipeline):
        return []
    whole = min(until, progress(paths).snapshots.closed)
    where = f'{OF_WHOLE_TABLES} and "table" = {text_literal(table)} and csn between {since} and {whole}'
    if after is not None:
        where += f" and landed_at > {instant_literal(after)}"
    return [row["csn"] for row in small_tables.query(paths.change_events, f"select distinct csn from t where {where}")]


def replaced(pipeline: Pipeline, paths: TablePaths, table: str, since: int, until: int) -> int:
    """Return the highest csn of a snapshot that replaced the rows of a table; 0 without one.

    since, until: the first and the last csn that are considered.
    """
    if not _has_snapshots(pipeline):
        return 0
    where = f"kind = 'row' and op = 'T' and \"table\" = {text_literal(table)} and csn between {since} and {until}"
    of_snapshot = f"starts_with(xid, '{REPLACES}')"
    rows = small_tables.query(paths.change_events, f"select max(csn) as csn from t where {where} and {of_snapshot}")
    return int((rows[0]["csn"] if rows else 0) or 0)


def truncates(paths: TablePaths) -> list[dict[str, Any]]:
    """Return the csn and the source table of each truncate of a table that a snapshot replaced."""
    where = f"kind = 'row' and op = 'T' and starts_with(xid, '{REPLACES}')"
    return small_tables.query(paths.change_events, f"select csn, source_table from t where {where} order by csn")


def _shown(paths: TablePaths, number: int) -> Shown:
    """Return what the events of one landing show of snapshots; those of other landings are not read."""
    of_snapshot = f"filter (where {OF_WHOLE_TABLES})"
    columns = {
        "rows": f"count(*) {of_snapshot}",
        "lowest": f"min(csn) {of_snapshot}",
        "highest": f"max(csn) {of_snapshot}",
        "last": f"max(csn) filter (where kind = 'row' and detail = '{LAST_OF_SNAPSHOT}')",
        "stream": f"max(csn) filter (where {OF_STREAM})",
        "beside": f"count(*) filter (where {OF_ROWS_BESIDE})",
        "ahead": f"count(*) filter (where kind = 'row' and detail = {text_literal(OF_AHEAD)})",
    }
    selected = ", ".join(f'{sql} as "{name}"' for name, sql in columns.items())
    row: dict[str, Any] = small_tables.query(paths.change_events, f"select {selected} from t where landing = {number}")[
        0
    ]
    ends = {name: NOWHERE if row[name] is None else row[name] for name in ("last", "stream")}
    return Shown(row["rows"], row["lowest"], row["highest"], **ends, beside=row["beside"], ahead=row["ahead"])


def _initial(paths: TablePaths, number: int, csn: int | None) -> int:
    """Return the csn of a snapshot that is whole now; NOWHERE where the stream has events below it.

    Then valid-through waits until the stream has reached the csn, because later events may lie below it too.
    """
    if csn is None:
        return NOWHERE
    below = f"select 1 as n from t where csn < {csn} and landing <= {number} and {OF_STREAM} limit 1"
    return NOWHERE if small_tables.query(paths.change_events, below) else csn


def _first_whole(paths: TablePaths, number: int, snapshots: Snapshots) -> int | None:
    """Return the csn of the first open snapshot whose last row came, which the stream begins with; else the highest.

    A connector that took its snapshot again before any change came begins the stream anew with the next ones.
    """
    ended = f"kind = 'row' and detail = {text_literal(LAST_OF_SNAPSHOT)} and landing <= {number}"
    between = f"csn between {snapshots.lowest} and {snapshots.highest}"
    sql = f"select min(csn) as csn from t where {ended} and {between}"
    first: int | None = small_tables.query(paths.change_events, sql)[0]["csn"]
    return snapshots.highest if first is None else first


def _may_begin(paths: TablePaths, number: int) -> bool:
    """Return whether what a landing left out may be a snapshot that the stream begins with: no row was landed yet."""
    return _left_out(paths, number) and not _has_rows(paths)


def _has_rows(paths: TablePaths) -> bool:
    """Return whether a row of any table was landed."""
    return bool(small_tables.query(paths.change_events, "select 1 as n from t where kind = 'row' limit 1"))


def _left_out(paths: TablePaths, number: int) -> bool:
    """Return whether it is recorded that a landing left something out."""
    return bool(small_tables.query(_path(paths), f"select 1 as n from t where landing = {number} and left_out"))


def _has_snapshots(pipeline: Pipeline) -> bool:
    return pipeline.source.format == "debezium"


def _path(paths: TablePaths) -> str:
    return paths.table(names.SOURCE_SNAPSHOTS)


def _write_id(paths: TablePaths, step: str) -> str:
    return names.write_id(paths.pipeline, f"{names.SOURCE_SNAPSHOTS}.{step}", 0)
