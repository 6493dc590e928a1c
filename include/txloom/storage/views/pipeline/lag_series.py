"""Lag and throughput over time for a chart, in a limited number of points."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import epoch_micros, instant_literal
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.views.paging import Row, last_step, open_tables

POINTS, MOST = 96, 500
"""Points of a series: by default, and at most."""
COUNTED = ("landed", "released", "dead", "duplicates")


@dataclass(frozen=True)
class Series:
    """A point for each bucket of time, the oldest first.

    points: at (the bucket's end), lag_seconds (age of the newest commit that readers saw then; None before the first
    cut), valid_through, landed, released, dead, duplicates (events of runs that ended in the bucket; 0: none).
    """

    points: list[Row]
    bucket_seconds: int
    since: datetime
    until: datetime
    as_of: datetime | None


@open_tables
def series(
    pipeline: Pipeline,
    warehouse: str,
    *,
    span: timedelta = timedelta(days=1),
    points: int = POINTS,
    now: datetime | None = None,
) -> Series:
    """Return how far readers were behind the source, and how many events were processed, in a span that ends now.

    Raises ConfigurationError for more than MOST points, none, or a span of less than a minute.
    """
    if not 1 <= points <= MOST or span < timedelta(minutes=1):
        raise ConfigurationError(f"a series has 1 to {MOST} points and spans a minute or more")
    until = now or datetime.now(UTC)
    width = max(1, -(-int(span.total_seconds()) // points))
    since, paths = until - timedelta(seconds=width * points), TablePaths(warehouse, pipeline.name)
    flow, shown = _flow(paths, since, until, width, points), _cuts(paths, since, until)
    rows: list[Row] = []
    newest: Row | None = None
    for number in range(points):
        end = since + timedelta(seconds=width * (number + 1))
        while shown and shown[0]["published_at"] <= end:
            newest = shown.pop(0)
        at = None if newest is None else newest["committed_at"] or newest["published_at"]
        lag = None if at is None else int((end - at).total_seconds())
        counted = flow.get(number, {})
        counts = {name: counted.get(name, 0) or 0 for name in COUNTED}
        rows.append({"at": end, "lag_seconds": lag, "valid_through": newest and newest["valid_through"], **counts})
    return Series(rows, width, since, until, last_step(paths))


def _flow(paths: TablePaths, since: datetime, until: datetime, width: int, points: int) -> dict[int, Row]:
    """Return by number of the bucket the sums of counts of landings and of the buffer."""
    begin = epoch_micros(since)
    bucket = f"least((cast(to_unixtime(at) as bigint) - {begin // 1_000_000}) / {width}, {points - 1})"
    sums = ", ".join(f"sum(counts['{name}']) as {name}" for name in COUNTED)
    within = f"at > {instant_literal(since)} and at <= {instant_literal(until)}"
    within += " and step in ('land_events', 'buffer_transactions')"
    sql = f"select {bucket} as bucket, {sums} from t where {within} and run_id <> 'carried forward' group by 1"
    return {int(row["bucket"]): row for row in small_tables.query(paths.table(names.LEDGER), sql)}


def _cuts(paths: TablePaths, since: datetime, until: datetime) -> list[Row]:
    """Return the cuts of a span and the newest one before it, oldest first."""
    columns = "cut_id, valid_through, committed_at, published_at"
    before = newest_cut(paths, columns, f"published_at <= {instant_literal(since)}")
    within = f"published_at > {instant_literal(since)} and published_at <= {instant_literal(until)}"
    inside = small_tables.query(paths.table(names.CUTS), f"select {columns} from t where {within} order by cut_id")
    return [*([] if before is None else [before]), *inside]
