"""Incremental snapshots that a connector was asked for, and how far they are: the table `snapshot_requests`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import SNAPSHOT_REQUESTS

PLANNED, SENT, READ, LOADED, FAILED = "planned", "sent", "read", "loaded", "failed"
OPEN = (PLANNED, SENT, READ)
NEWEST = "select * from (select *, row_number() over (partition by request order by at desc) as n from t) where n = 1"


@dataclass(frozen=True)
class Request:
    """A snapshot that was asked for, as `system_tables.SNAPSHOT_REQUESTS` has it; at: when it became so."""

    request: str
    run_id: str
    tables: tuple[str, ...]
    since_csn: int
    status: str = PLANNED
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ends: Mapping[str, int] | None = None
    removed: int = 0
    detail: str | None = None


def requests(paths: TablePaths) -> list[Request]:
    """Return all requests, the newest first."""
    rows = small_tables.query(paths.table(names.SNAPSHOT_REQUESTS), NEWEST)
    return sorted((_request(row) for row in rows), key=lambda each: each.at, reverse=True)


def open_requests(paths: TablePaths) -> list[Request]:
    """Return the requests that are under way, the newest first."""
    return [each for each in requests(paths) if each.status in OPEN]


def loaded(paths: TablePaths) -> dict[str, int]:
    """Return, of each table that a requested snapshot was loaded of, the newest one's since_csn."""
    since_by_table: dict[str, int] = {}
    for each in requests(paths):
        if each.status == LOADED:
            since_by_table |= {name: max(since_by_table.get(name, 0), each.since_csn) for name in each.tables}
    return since_by_table


def write(paths: TablePaths, request: Request, status: str, **more: Any) -> Request:
    """Append a request in another state, and return it; more: other fields that changed."""
    now = replace(request, status=status, at=datetime.now(UTC), **more)
    row = {**vars(now), "ends": None if now.ends is None else sorted(now.ends.items())}
    small_tables.ensure(paths.table(names.SNAPSHOT_REQUESTS), SNAPSHOT_REQUESTS)
    small_tables.append(paths.table(names.SNAPSHOT_REQUESTS), [row], SNAPSHOT_REQUESTS)
    return now


def covering(paths: TablePaths, tables: Sequence[str]) -> list[Request]:
    """Return the open requests that have one of some tables."""
    return [each for each in open_requests(paths) if set(each.tables) & set(tables)]


def _request(row: dict[str, Any]) -> Request:
    fields = {name: row[name] for name in ("request", "run_id", "since_csn", "status", "at", "removed", "detail")}
    return Request(**fields, tables=tuple(row["tables"]), ends=None if row["ends"] is None else dict(row["ends"]))
