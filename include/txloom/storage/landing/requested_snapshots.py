"""Incremental snapshots that a connector was asked for, and how far they are: the table `snapshot_requests`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from txloom.config import names
from txloom.storage.delta import schema_evolution, small_tables
from txloom.storage.delta.sql import text_literal
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
    landing: int = 0
    release: int = 0
    status: str = PLANNED
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ends: Mapping[str, int] | None = None
    until_csn: int | None = None
    removed: int = 0
    detail: str | None = None


def requests(paths: TablePaths) -> list[Request]:
    """Return all requests, the newest first."""
    rows = small_tables.query(paths.table(names.SNAPSHOT_REQUESTS), NEWEST)
    return sorted((_request(row) for row in rows), key=lambda each: each.at, reverse=True)


def open_requests(paths: TablePaths) -> list[Request]:
    """Return the requests that are under way, the newest first."""
    return [each for each in requests(paths) if each.status in OPEN]


def read_at(paths: TablePaths, request: Request) -> datetime:
    """Return when a request was first recorded as read; the connector had read all its tables by then."""
    of_request = f"request = {text_literal(request.request)} and status = '{READ}'"
    rows = small_tables.query(paths.table(names.SNAPSHOT_REQUESTS), f"select min(at) as at from t where {of_request}")
    first: datetime = rows[0]["at"]
    return first


def loaded(paths: TablePaths, after: int = 0) -> dict[str, int]:
    """Return, of each table that a requested snapshot was loaded of, the newest one's since_csn.

    after: only requests that were made when this release of the buffer was there.
    """
    since_by_table: dict[str, int] = {}
    for each in requests(paths):
        if each.status == LOADED and each.release >= after:
            since_by_table |= {name: max(since_by_table.get(name, 0), each.since_csn) for name in each.tables}
    return since_by_table


def write(paths: TablePaths, request: Request, status: str, **more: Any) -> Request:
    """Append a request in another state, and return it; more: other fields that changed."""
    now = replace(request, status=status, at=datetime.now(UTC), **more)
    row = {**vars(now), "ends": None if now.ends is None else sorted(now.ends.items())}
    schema_evolution.ensure(paths.table(names.SNAPSHOT_REQUESTS), SNAPSHOT_REQUESTS)
    small_tables.append(paths.table(names.SNAPSHOT_REQUESTS), [row], SNAPSHOT_REQUESTS)
    return now


def _request(row: dict[str, Any]) -> Request:
    same = ("request", "run_id", "since_csn", "status", "at", "until_csn", "removed", "detail")
    ends = None if row["ends"] is None else dict(row["ends"])
    about = {name: row.get(name) for name in same} | {name: row.get(name) or 0 for name in ("landing", "release")}
    return Request(**about, tables=tuple(row["tables"]), ends=ends)
