"""Which landings each micro-batch of the buffer takes: a small table beside each generation's checkpoint.

A batch is bounded, so that a rebuild of years goes piece by piece; what is planned is never planned anew.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import arrow_schema
from txloom.transactions.compact_events import BUCKETS

PLAN = arrow_schema(
    [("after", pa.int64()), ("until", pa.int64()), ("tasks", pa.int32()), ("change_events", pa.string())]
)
"""A micro-batch takes the landings after one up to another; how many tasks read them; the id of change_events."""
PLANNED = "planned_landings"
"""Under this write id a plan knows its last landing: a run that was overtaken plans nothing twice."""
ROWS_AT_ONCE, LANDINGS_AT_ONCE = 2_000_000, 20_000
"""A micro-batch takes no landing more once it has so many rows of change_events, or landings."""
ROWS_OF_A_TASK = 250_000


@dataclass(frozen=True)
class End:
    """Where a micro-batch ends: the last landing that it takes, and how many tasks read it."""

    landing: int
    tasks: int = 1


def plan_of(checkpoint: str) -> str:
    """Return the path of a checkpoint's plan."""
    return f"{checkpoint}/plan"


def change_events_id(paths: TablePaths) -> str:
    """Return what tells change_events from any other table."""
    return str(opened(paths.change_events).metadata().id)


def extend(paths: TablePaths, plan: str, known: int = 0) -> list[End]:
    """Plan micro-batches for every landing after the last that a plan names; return them."""
    small_tables.ensure(plan, PLAN)
    after, table_id = planned(plan), change_events_id(paths)
    new_ends = ends(paths, after, known)
    for end in new_ends:
        row = {"after": after, "until": end.landing, "tasks": end.tasks, "change_events": table_id}
        small_tables.append(plan, [row], PLAN, once=(PLANNED, end.landing))
        after = end.landing
    return new_ends


def planned(plan: str) -> int:
    """Return the last landing that a plan names, 0 for none."""
    return max(small_tables.last_written(plan, PLANNED), 0)


def ends(paths: TablePaths, after: int, known: int = 0) -> list[End]:
    """Return where the micro-batches end that take every landing after one; one ends at `known` if they get that far.

    Small landings are taken together, until they are large enough.
    """
    sql = f"select landing, count(*) as n, max(kind = 'clock') as over from t where landing > {after} group by landing"
    landed = sorted((row["landing"], row["n"]) for row in small_tables.query(paths.change_events, sql) if row["over"])
    return list(_ends(landed, known))


def _ends(landed: Sequence[tuple[int, int]], known: int) -> Iterator[End]:
    rows = taken = 0
    for position, (landing, rows_of_landing) in enumerate(landed):
        rows, taken = rows + rows_of_landing, taken + 1
        following = landed[position + 1][0] if position + 1 < len(landed) else None
        if following is None or rows >= ROWS_AT_ONCE or taken >= LANDINGS_AT_ONCE or landing <= known < following:
            yield End(landing, min(BUCKETS, 1 + rows // ROWS_OF_A_TASK))
            rows = taken = 0
