"""The landings that each micro-batch of the buffer takes: a small table in the folder of each checkpoint.

A micro-batch is bounded, so that a rebuild over years of landings is done in pieces. A planned landing is not planned
again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake.exceptions import TableNotFoundError

from txloom.storage.buffer.newest_batch import BufferState
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import REDECODES, arrow_schema
from txloom.transactions.compact_events import BUCKETS

PLAN = arrow_schema(
    [("after", pa.int64()), ("until", pa.int64()), ("tasks", pa.int32()), ("change_events", pa.string())]
)
"""A row for each micro-batch, which takes the landings behind `after` up to `until`; tasks: how many tasks read them;
change_events: the id of that table."""
PLANNED = "planned_landings"
"""The write id under which a plan's commits have the last landing, so that no landing is planned twice."""
PARTS = "txloom.bucketParts"
"""The property of a plan that says into how many parts its checkpoint's state splits each bucket of a landing."""
ROWS_AT_ONCE, LANDINGS_AT_ONCE = 2_000_000, 20_000
"""Rows of change_events, or landings, from which on a micro-batch takes no further landing."""
ROWS_OF_A_TASK = 250_000
"""Rows of change_events for each task that reads a micro-batch."""


@dataclass(frozen=True)
class End:
    """The end of a micro-batch."""

    landing: int
    """The last landing that it takes."""
    tasks: int = 1
    """How many tasks read it."""


def plan_of(checkpoint: str) -> str:
    """Return the path of a checkpoint's plan; checkpoint: the path of its folder."""
    return f"{checkpoint}/plan"


def change_events_id(paths: TablePaths) -> str:
    """Return Delta's id of change_events; a table that was made anew at its path has another id."""
    return str(opened(paths.change_events).metadata().id)


def parts_of(plan: str) -> int | None:
    """Return into how many parts a plan's checkpoint splits each bucket; None where there is no plan yet."""
    try:
        return int(opened(plan).metadata().configuration.get(PARTS, 1))
    except TableNotFoundError:
        return None


def extend(paths: TablePaths, plan: str, known: int = 0, parts: int = 1) -> list[End]:
    """Plan micro-batches for every finished landing behind the last one of a plan.

    A repeated call plans nothing.

    Args:
        paths: where the tables are.
        plan: the path of the plan's table, which is created where there is none.
        known: a landing at which a micro-batch has to end; 0: none.
        parts: into how many parts the checkpoint's state splits each bucket; a plan keeps that of its first call.

    Returns:
        the new micro-batches, in order.

    Raises:
        LeaseTaken: another run holds the lease.
    """
    small_tables.ensure(plan, PLAN, {PARTS: str(parts)} if parts > 1 else None)
    after, table_id = planned(plan), change_events_id(paths)
    new_ends = ends(paths, after, known)
    for end in new_ends:
        row = {"after": after, "until": end.landing, "tasks": end.tasks, "change_events": table_id}
        small_tables.append(plan, [row], PLAN, once=(PLANNED, end.landing))
        after = end.landing
    return new_ends


def planned(plan: str) -> int:
    """Return the last landing of a plan; 0 where it has none."""
    return max(small_tables.last_written(plan, PLANNED), 0)


def ends(paths: TablePaths, after: int, known: int = 0) -> list[End]:
    """Return the ends of the micro-batches that take every finished landing behind `after`; nothing is written.

    Small landings are taken in one micro-batch. One micro-batch ends at the landing `known`, where landings reach it.
    """
    over = "max(kind = 'clock') as over"
    sql = f"select landing, count(*) as n, {over} from t where landing > {after} group by landing"
    rows = [row for row in small_tables.query(paths.change_events, sql) if row["over"]]
    landed = sorted((row["landing"], row["n"]) for row in rows)
    return list(_ends(landed, known))


def has_redecoded(paths: TablePaths, seen: BufferState | None) -> bool:
    """Return whether a landing that the buffer has not taken yet decoded undecided transactions again.

    Args:
        paths: where the tables are.
        seen: the state after the buffer's newest complete batch; None before the first one.
    """
    after = 0 if seen is None else seen.landing
    sql = f"select 1 as n from t where landing > {after} and kind = 'clock' and detail = '{REDECODES}' limit 1"
    return bool(small_tables.query(paths.change_events, sql))


def _ends(landed: Sequence[tuple[int, int]], known: int) -> Iterator[End]:
    rows = taken = 0
    for position, (landing, rows_of_landing) in enumerate(landed):
        rows, taken = rows + rows_of_landing, taken + 1
        following = landed[position + 1][0] if position + 1 < len(landed) else None
        if following is None or rows >= ROWS_AT_ONCE or taken >= LANDINGS_AT_ONCE or landing <= known < following:
            yield End(landing, min(BUCKETS, 1 + rows // ROWS_OF_A_TASK))
            rows = taken = 0
