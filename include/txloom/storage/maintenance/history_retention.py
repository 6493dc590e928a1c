"""History that no reader needs any more: up to which csn it is cleaned."""

from datetime import datetime, timedelta
from typing import Any

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import instant_literal
from txloom.storage.paths import TablePaths


def horizon(paths: TablePaths, keep: timedelta, retain: timedelta, now: datetime) -> int:
    """Return the csn up to which history may be cleaned; 0: nowhere.

    All that the source committed up to it is older than `keep` (a transaction without a commit time counts from its
    landing), and every cut that vacuum keeps readable is at or above it.
    """
    when = "coalesce(committed_at, first_landed_at)"
    old = f"{when} <= {instant_literal(now - keep)}"
    finished = paths.table(names.TRANSACTIONS)
    rows = small_tables.query(
        finished, f"select min(csn) as csn from t where csn is not null and not coalesce({old}, false)"
    )
    younger = f" and csn < {rows[0]['csn']}" if rows and rows[0]["csn"] is not None else ""
    rows = small_tables.query(finished, f"select max(csn) as csn from t where {old}{younger}")
    newest = int((rows[0]["csn"] if rows else 0) or 0)
    return min(newest, _oldest_readable(paths, now - retain))


def _oldest_readable(paths: TablePaths, since: datetime) -> int:
    """Return the valid-through of the oldest cut that is readable: no later one replaced its tables before a time."""
    sql = "select valid_through, versions, published_at from t order by cut_id"
    cuts: list[dict[str, Any]] = small_tables.query(paths.table(names.CUTS), sql)
    if not cuts:
        return 0
    first = max((number for number, cut in enumerate(cuts) if cut["published_at"] <= since), default=0)
    while first and cuts[first - 1]["versions"] == cuts[first]["versions"]:
        first -= 1
    return int(cuts[first]["valid_through"])
