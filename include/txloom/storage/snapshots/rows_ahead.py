"""Rows that a connector may have read ahead of its stream wait until the stream has passed the read (ADR 55).

With `read.only`, PostgreSQL's connector may send the rows of an incremental snapshot while its stream is behind their
read. The rows have the position of the last commit of the stream, but their values may come from later commits. A
landing keeps such rows without a table. They are landed again, with their tables, once the current tables show a commit
that is later than the read. They do not wait for it if the commit after their position wrote a watermark, because the
connector then sent them after its stream had reached the read.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.events.envelope import OF_AHEAD
from txloom.storage.dead_letters.open_letters import MESSAGE
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.sql import instant_literal, text_list, text_literal
from txloom.storage.landing.connector_snapshots import OF_STREAM
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import merged
from txloom.storage.sources.splits import LandingPlan
from txloom.storage.system_tables import ROWS_AHEAD

CLOCKS_DIFFER = timedelta(seconds=10)
"""The largest difference that is allowed for between the clocks of the database and of its connector."""
_HELD = f"kind = 'row' and detail = {text_literal(OF_AHEAD)}"


@dataclass(frozen=True)
class Waiting:
    """The waiting rows of one landing; see `system_tables.ROWS_AHEAD`."""

    landing: int
    rows: int
    lowest: int
    read_until: datetime


def note_held(paths: TablePaths, landing: LandingPlan) -> None:
    """Record number, lowest csn and latest time of the waiting rows of a landing; a repeated call writes nothing."""
    numbers = "count(*) as rows, min(csn) as lowest, max(committed_at) as read_until"
    sql = f"select {numbers} from t where landing = {landing.number} and {_HELD}"
    (row,) = small_tables.query(paths.change_events, sql)
    _append(paths, landing, row)


def note_landed(paths: TablePaths, landing: LandingPlan, of_landing: int) -> None:
    """Record that a landing contains the rows of an earlier landing again; a repeated call writes nothing."""
    _append(paths, landing, {"of_landing": of_landing})


def _append(paths: TablePaths, landing: LandingPlan, row: dict[str, object]) -> None:
    path = paths.table(names.ROWS_AHEAD)
    once = (names.write_id(paths.pipeline, names.ROWS_AHEAD, 0), landing.number)
    small_tables.ensure(path, ROWS_AHEAD)
    small_tables.append(path, [{"landing": landing.number, "at": landing.at, **row}], ROWS_AHEAD, once=once)


def waiting(pipeline: Pipeline, paths: TablePaths) -> list[Waiting]:
    """Return one entry for each landing with rows that still wait, in the order of the landings."""
    if pipeline.source.format != "debezium":
        return []
    rows = small_tables.query(paths.table(names.ROWS_AHEAD), "select * from t order by landing")
    landed = {row["of_landing"] for row in rows}
    return [
        Waiting(row["landing"], row["rows"], row["lowest"], row["read_until"])
        for row in rows
        if row["of_landing"] is None and row["landing"] not in landed
    ]


def were_held(paths: TablePaths, after: int) -> bool:
    """Return whether a landing after the landing `after` has rows that wait or waited."""
    of_landings = f"landing > {after} and of_landing is null"
    return bool(small_tables.query(paths.table(names.ROWS_AHEAD), f"select 1 as n from t where {of_landings} limit 1"))


def is_certain(pipeline: Pipeline, paths: TablePaths, each: Waiting) -> bool:
    """Return whether no waiting row of a landing has a value that the current tables must not show yet."""
    return has_passed(pipeline, paths, each.read_until, each.lowest) or _had_reached(pipeline, paths, each)


def has_passed(pipeline: Pipeline, paths: TablePaths, moment: datetime, since: int) -> bool:
    """Return whether the current tables show a commit of the source that is later than a moment.

    The commit has to be later by more than CLOCKS_DIFFER.

    moment: a time by the connector's clock, or by txloom's.
    since: a csn that is not above that of such a commit.
    """
    watermark = merged(paths, pipeline.current_tables)
    if watermark is None:
        return False
    later = f"committed_at > {instant_literal(moment + CLOCKS_DIFFER)}"
    shown = f"csn >= {since} and csn <= {watermark.valid_through}"
    sql = f"select 1 as n from t where {OF_STREAM} and {later} and {shown} limit 1"
    return bool(small_tables.query(paths.change_events, sql))


def _had_reached(pipeline: Pipeline, paths: TablePaths, each: Waiting) -> bool:
    """Return whether, for each waiting row of a landing, the next commit after its position wrote a watermark.

    A connector that keeps watermarks in a table sends a chunk when its stream has reached the upper watermark. The rows
    are then as of the commit before the watermark's.
    """
    signals = pipeline.source.signals
    if signals is None or signals.watermarks is None:
        return False
    of_rows = f"select distinct csn from t where landing = {each.landing} and {_HELD}"
    positions = [row["csn"] for row in small_tables.query(paths.change_events, of_rows)]
    named = text_literal(f'"{signals.watermarks}"')
    sql = (
        f"select distinct csn, strpos(value, {named}) > 0 as is_watermark from t where kind = 'metadata'"
        f" and topic not in ({text_list(names.LOADS)}) and csn > {each.lowest} order by csn"
    )
    commits = small_tables.query(paths.change_events, sql)
    behind = np.searchsorted([row["csn"] for row in commits], positions, side="right")
    return bool((behind < len(commits)).all()) and all(commits[place]["is_watermark"] for place in behind)


def messages(paths: TablePaths, landing: int) -> pa.Table:
    """Return the messages of the waiting rows of a landing, in the order of the landing: the columns of MESSAGE."""
    sql = f'select {MESSAGE} from t where landing = {landing} and {_HELD} and value is not null order by "row"'
    return arrow_tables.select(paths.change_events, sql)
