"""Snapshots that a connector takes beside its stream: which tables they replace, and where that cannot be known.

A connector whose place in the log is lost reads all its tables again, and streams on from there. What was deleted
meanwhile is in no message. Where such a snapshot is whole, its rows replace the tables; where it is not known to be
whole, rows that it did not have may be ones that the source no longer has (docs/adr/0052).
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.events.debezium.messages import read_row
from txloom.events.debezium.positions import is_where_streaming_begins
from txloom.events.envelope import (
    FIRST_OF_TABLE,
    LAST_OF_SNAPSHOT,
    LAST_OF_TABLE,
    OF_INCREMENTAL,
    OF_SNAPSHOT,
)
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_list, text_literal
from txloom.storage.paths import TablePaths
from txloom.transactions.events import NOWHERE
from txloom.transactions.snapshots import Shown, Snapshots

_FLAGS = text_list((OF_SNAPSHOT, FIRST_OF_TABLE, LAST_OF_TABLE, LAST_OF_SNAPSHOT))
OF_WHOLE_TABLES = f"kind = 'row' and detail in ({_FLAGS})"
"""The condition on events for rows of a snapshot of whole tables at one moment."""
OF_ROWS_BESIDE = f"kind = 'row' and detail = {text_literal(OF_INCREMENTAL)}"
"""The condition on events for rows that were read beside the stream."""


@dataclass(frozen=True)
class Retaken:
    """A snapshot beside the stream that a landing closes.

    csn: its commit position. replaced: the tables whose rows its rows replace. unsure: by table why rows that it did
    not have may be ones that the source no longer has. begins_stream: whether the stream begins anew with it.
    went_back: how it shows that the source's log begins lower than it was; None: it does not.
    """

    csn: int
    replaced: tuple[str, ...] = ()
    unsure: Mapping[str, str] = field(default_factory=dict)
    begins_stream: bool = False
    went_back: str | None = None


@dataclass(frozen=True)
class SnapshotChange:
    """How a landing changes the state of snapshots.

    number: the landing, whose events are written. before, after: the state. shown: what its events show. begun: the
    csn of the snapshot that the stream began with, where the landing closes it; rows up to it came before any stream.
    """

    number: int
    before: Snapshots
    after: Snapshots
    shown: Shown
    begun: int | None = None


Rows = dict[str | None, bool]
"""By table (None: tables that nobody watches) whether the last row of all came with its rows."""


def retaken(
    pipeline: Pipeline, paths: TablePaths, change: SnapshotChange, shown_through: Callable[[], int]
) -> tuple[Retaken, ...]:
    """Return the snapshots beside the stream that a landing closes, in commit order.

    Args:
        pipeline: the declaration.
        paths: where the tables are.
        change: what the landing changes.
        shown_through: returns up to where the newest cut shows the source.
    """
    before, shown, begun = change.before, change.shown, change.begun
    closed = [] if before.lowest is None else _closed(paths, change.number, before.closed, change.after.closed)
    if shown.lowest is not None and shown.lowest <= before.closed:
        closed += _below(paths, change.number, before.closed)
    through = max(shown_through(), before.closed) if closed else NOWHERE
    closed = [(csn, rows) for csn, rows in closed if begun is None or csn > begun]
    return _judge_all(pipeline, paths, closed, through)


def mixed(paths: TablePaths, change: SnapshotChange) -> list[dict[str, int]]:
    """Return the ranges of csns at which no state of the source is known, of the snapshots that a landing closes.

    Each range begins at the csn of a snapshot that the connector gave up, and ends below the csn of the one that it
    took instead. Between the two, tables mix rows of the first with older ones.

    Args:
        paths: where the tables are.
        change: what the landing changes.

    Returns:
        the ranges, each with `since` and `until`; `until` lies outside.
    """
    if change.before.lowest is None:
        return []
    closed = _closed(paths, change.number, change.before.closed, change.after.closed)
    whole = [csn for csn, rows in closed if any(rows.values())]
    given_up = [csn for csn, rows in closed if not any(rows.values())]
    pairs = [(csn, min((each for each in whole if each > csn), default=csn)) for csn in given_up]
    return [{"since": since, "until": until} for since, until in pairs if since < until]


def retaken_before(
    pipeline: Pipeline, paths: TablePaths, bounds: tuple[int, int], sources: Mapping[str, str], went_back: Set[int]
) -> tuple[Retaken, ...]:
    """Return the snapshots beside the stream that earlier landings closed, by the tables that are declared now.

    Args:
        pipeline: the declaration.
        paths: where the tables are.
        bounds: the csn of the snapshot that the stream began with, and that of the last one that is closed.
        sources: the names of source tables, as messages have them, each with the table that it is declared as now.
        went_back: the csns of snapshots that were found to lie below what a cut showed; they are left out.
    """
    begun, closed = bounds
    snapshots: list[tuple[int, Rows]] = []
    for csn, by_source in _snapshots(paths, f"csn > {begun} and csn <= {closed}", "source_table"):
        rows: Rows = {}
        for source, is_over in by_source.items():
            name = sources.get(source) if source is not None else None
            rows[name] = rows.get(name, False) or is_over
        snapshots += [(csn, rows)] if csn not in went_back else []
    return _judge_all(pipeline, paths, snapshots, NOWHERE)


def given_up_before(paths: TablePaths, begun: int, sources: Mapping[str, str]) -> set[str]:
    """Return the tables of which only snapshots had rows that a connector gave up before its stream began.

    Args:
        paths: where the tables are.
        begun: the csn of the snapshot that the stream began with.
        sources: the names of source tables, as messages have them, each with the table that it is declared as now.
    """
    snapshots = _snapshots(paths, f"csn < {begun}", "source_table")
    given_up = [rows for _, rows in snapshots if not any(rows.values())]
    return {sources[source] for rows in given_up for source in rows if source is not None and source in sources}


def _judge_all(
    pipeline: Pipeline, paths: TablePaths, closed: Sequence[tuple[int, Rows]], through: int
) -> tuple[Retaken, ...]:
    """Return what follows from snapshots, in commit order; through: up to where a cut shows the source."""
    judged, given_up = list[Retaken](), set[str]()
    for csn, rows in sorted(closed, key=lambda each: each[0]):
        each = _judged(pipeline, paths, (csn, rows), given_up, through)
        if each.replaced:
            # What an earlier one is not known to have, this one has, or is not known to have itself.
            judged, given_up = [other for other in judged if other.replaced], set()
        elif each.begins_stream:
            given_up |= {name for name in rows if name is not None}
        judged.append(each)
    return tuple(judged)


def _judged(
    pipeline: Pipeline, paths: TablePaths, snapshot: tuple[int, Rows], given_up: Set[str], through: int
) -> Retaken:
    """Return what follows from one snapshot: csn and rows.

    given_up: the tables of which the connector had rows in one that it gave up before, so that it reads them. through:
    up to where a cut shows the source, or other snapshots are closed.
    """
    csn, rows = snapshot
    tables = {name for name in rows if name is not None}
    if not _begins_stream(paths, csn):
        why = f"the connector read rows of it again at csn {csn}, and it is not known that it read every row"
        return Retaken(csn, unsure=dict.fromkeys(sorted(tables), why))
    declared = [table.name for table in pipeline.tables]
    if csn <= through:
        why = f"the connector began its stream anew with a snapshot at csn {csn}, below csn {through} that came before"
        return Retaken(csn, went_back=why)
    if not any(rows.values()):
        why = f"the connector took its snapshot again at csn {csn}, and the last row of that did not come"
        return Retaken(csn, unsure=dict.fromkeys(declared, why), begins_stream=True)
    replaced = tables | given_up
    why = f"the connector took its snapshot again at csn {csn}, which has no row of the table"
    return Retaken(csn, tuple(sorted(replaced)), {name: why for name in declared if name not in replaced}, True)


def _closed(paths: TablePaths, number: int, after: int, upto: int) -> list[tuple[int, Rows]]:
    return _snapshots(paths, f"csn > {after} and csn <= {upto} and landing <= {number}")


def _below(paths: TablePaths, number: int, closed: int) -> list[tuple[int, Rows]]:
    """Return the snapshots of which a landing has the first rows, though what lies above them is closed."""
    snapshots = _snapshots(paths, f"csn <= {closed} and landing = {number}")
    known = f"select distinct csn from t where {OF_WHOLE_TABLES} and csn <= {closed} and landing < {number}"
    earlier = {row["csn"] for row in small_tables.query(paths.change_events, known)}
    return [(csn, tables) for csn, tables in snapshots if csn not in earlier]


def _snapshots(paths: TablePaths, where: str, name: str = "table") -> list[tuple[int, Rows]]:
    """Return the snapshots by csn; name: the column that names the tables of their rows."""
    over = f"bool_or(detail = {text_literal(LAST_OF_SNAPSHOT)}) as is_over"
    sql = f'select csn, "{name}" as name, {over} from t where {OF_WHOLE_TABLES} and {where} group by csn, "{name}"'
    by_csn: dict[int, Rows] = {}
    for row in small_tables.query(paths.change_events, sql):
        by_csn.setdefault(row["csn"], {})[row["name"]] = row["is_over"]
    return sorted(by_csn.items())


def _begins_stream(paths: TablePaths, csn: int) -> bool:
    """Return whether the connector restarted its stream from a snapshot.

    The snapshot's messages say so. If they were removed, the landings recorded it.
    """
    for value in _messages(paths, f"csn = {csn}").values():
        return _is_fresh(value)
    recorded = small_tables.query(paths.table(names.SOURCE_SNAPSHOTS), "select * from t")
    return any(csn in (row.get("fresh") or ()) for row in recorded)


def fresh(paths: TablePaths, number: int) -> list[int]:
    """Return the csns of a landing's snapshots from which the connector restarted its stream."""
    return [csn for csn, value in _messages(paths, f"landing = {number}").items() if _is_fresh(value)]


def _messages(paths: TablePaths, where: str) -> dict[int, str]:
    """Return one message of each snapshot that still has one, by csn: that of its last row if it is there."""
    last_first = f"case when detail = {text_literal(LAST_OF_SNAPSHOT)} then 0 else 1 end"
    of_rows = f"from t where {OF_WHOLE_TABLES} and {where} and value is not null group by csn order by csn"
    sql = f"select csn, first_value(value order by {last_first}) as value {of_rows}"
    return {row["csn"]: row["value"] for row in small_tables.query(paths.change_events, sql)}


def _is_fresh(value: str) -> bool:
    message, _ = read_row(value)
    return message is not None and message.source is not None and is_where_streaming_begins(message.source)


def read_beside(paths: TablePaths, number: int) -> dict[str, int]:
    """Return, of each table of which a landing has rows that were read beside the stream, their lowest csn."""
    where = f'landing = {number} and {OF_ROWS_BESIDE} and "table" is not null'
    sql = f'select "table", min(csn) as csn from t where {where} group by "table" order by "table"'
    return {row["table"]: row["csn"] for row in small_tables.query(paths.change_events, sql)}
