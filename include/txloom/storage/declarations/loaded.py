"""As of which csn each table was loaded anew: by an operator, or by the snapshots of a connector."""

from collections.abc import Mapping
from datetime import datetime

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.storage.declarations.records import Pair, Record
from txloom.storage.delta import small_tables
from txloom.storage.landing import connector_snapshots, loaded_snapshots, requested_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.targets.row_tables import RowTable, row_tables


def loaded_since(
    pipeline: Pipeline,
    paths: TablePaths,
    reached: Watermark,
    since: int,
    after: datetime | None = None,
    release: int = -1,
) -> dict[str, int]:
    """Return by table the newest csn as of which all its rows were loaded, by an operator or a connector; 0: never.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        reached: the watermark of the current tables.
        since: the lowest csn that is asked for.
        after: only snapshots of a connector that were landed later; None: all.
        release: only snapshots of which every row was released later.
    """
    loaded = loaded_snapshots.loaded(pipeline, paths, reached.valid_through, reached.release, after=release)
    for name, since_csn in requested_snapshots.loaded(paths, after=max(release, 0)).items():
        loaded[name] = max(loaded.get(name, 0), since_csn)
    for row_table in row_tables(pipeline):
        name = row_table.table.name
        csn = _sent_anew(pipeline, paths, row_table, (since, reached.valid_through), after)
        if csn and release >= 0 and _is_released_before(paths, csn, release):
            csn = 0
        loaded[name] = max(loaded.get(name, 0), csn)
    return loaded


def completed_by(
    pipeline: Pipeline, paths: TablePaths, lacking: Mapping[Pair, Record], reached: Watermark
) -> dict[Pair, int]:
    """Return, by incomplete member of a history, the csn of the newest snapshot that completes the member.

    A snapshot that was released after the member's record completes the member if its csn is the last missing csn or
    above. An operator's snapshot above the last missing csn completes the member whenever it was loaded, because the
    member's rows include it. A member without such a snapshot is left out.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        lacking: the newest records of the incomplete members.
        reached: the csn and the release up to which snapshots count.
    """
    if not lacking:
        return {}
    since = min(record.since_csn for record in lacking.values())
    present = loaded_snapshots.loaded(pipeline, paths, reached.valid_through, reached.release)
    loaded = {
        release: loaded_since(pipeline, paths, reached, since - 1, release=release)
        for release in {record.release for record in lacking.values()}
    }
    completed = dict[Pair, int]()
    for pair, record in sorted(lacking.items()):
        csn = loaded[record.release].get(pair[1], 0)
        if present.get(pair[1], 0) >= record.since_csn:
            csn = max(csn, present[pair[1]])
        if csn and csn >= record.since_csn - 1:
            completed[pair] = csn
    return completed


def _is_released_before(paths: TablePaths, csn: int, release: int) -> bool:
    """Return whether a row of a connector's snapshot was released up to a release."""
    sql = f"select 1 as n from t where csn = {csn} and starts_with(xid, 'r:') and release <= {release} limit 1"
    return bool(small_tables.query(paths.table(names.TRANSACTIONS), sql))


def _sent_anew(
    pipeline: Pipeline, paths: TablePaths, row_table: RowTable, csns: tuple[int, int], after: datetime | None
) -> int:
    """Return the csn of a connector's whole snapshot since which every row of a table was written; 0 without one.

    A connector sends the rows that exist, and no deletes. Where the table has a row that is older than the snapshot,
    the snapshot did not have it, and the table is not repaired. csns: the first and the last one that are considered.
    """
    if not row_table.table.key:
        return connector_snapshots.replaced(pipeline, paths, row_table.table.name, *csns)
    sent = connector_snapshots.sent(pipeline, paths, row_table.table.name, *csns, after)
    if not sent:
        return 0
    shown = small_tables.query(paths.table(row_table.current), "select min(_txloom_csn) as oldest from t")
    oldest = shown[0]["oldest"] if shown else None
    return max((csn for csn in sent if oldest is None or csn <= oldest), default=0)
