"""The history tables of a pipeline, and how they are created."""

import pyarrow as pa
from deltalake import DeltaTable

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.errors import HistoryLost
from txloom.storage import system_tables
from txloom.storage.buffer import checkpoints
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.delta import schema_evolution, small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import watermark_of
from txloom.storage.targets import schemas

PROPERTIES = {**small_tables.DELETION_VECTORS, "delta.dataSkippingStatsColumns": "_txloom_csn,_txloom_release"}


def create(pipeline: Pipeline, paths: TablePaths) -> None:
    """Create the tables that the buffer writes, or bring them to their declared columns.

    Raises HistoryLost where a history is gone though its current table shows what was made of it: an empty one in its
    place would take rows away with the next late change.
    """
    small_tables.ensure(paths.table(names.TRANSACTIONS), system_tables.TRANSACTIONS)
    _refuse_lost(pipeline, paths)
    for mirror in pipeline.targets.mirrors:
        ensure(paths.table(mirror.history), schemas.changes_schema(pipeline.table(mirror.table)))
    for aggregate in pipeline.targets.aggregates:
        ensure(paths.table(aggregate.history), schemas.stream_schema(pipeline, aggregate))


def take_back(pipeline: Pipeline, paths: TablePaths, epoch: int) -> int:
    """Take rows away that a batch of an earlier generation appended whose transactions were never entered.

    It died in between, and its checkpoint was lost: a rebuild releases them once more. Returns how many; looks only
    before a generation's first batch is complete.
    """
    if epoch == checkpoints.FIRST:
        return 0
    first, seen = checkpoints.first_release(epoch), buffer_state(paths)
    complete = 0 if seen is None else seen.release
    if complete >= first:
        return 0
    sql = f"select max(release) as entered from t where release < {first}"
    entered = next((row["entered"] for row in small_tables.query(paths.table(names.TRANSACTIONS), sql)), None)
    died = f"_txloom_release > {max(entered or 0, complete)} and _txloom_release < {first}"
    return sum(small_tables.drop(paths.table(history), died) for history, _ in _made(pipeline))


def ensure(path: str, schema: pa.Schema) -> None:
    """Create a history, or bring it to its declared columns."""
    schema_evolution.ensure(path, schema, PROPERTIES)


def lost(pipeline: Pipeline, paths: TablePaths) -> list[str]:
    """Return the histories that are not there although something was merged out of them."""
    return [
        history for history, current in _made(pipeline) if not _is_there(paths, history) and _is_merged(paths, current)
    ]


def _made(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return each history, and the current table that is made of it."""
    made = [(each.history, each.current) for each in pipeline.targets.mirrors]
    return made + [(each.history, each.current) for each in pipeline.targets.aggregates]


def _is_there(paths: TablePaths, table: str) -> bool:
    return bool(DeltaTable.is_deltatable(paths.table(table)))


def _is_merged(paths: TablePaths, current: str) -> bool:
    return _is_there(paths, current) and watermark_of(paths.table(current)).release > 0


def _refuse_lost(pipeline: Pipeline, paths: TablePaths) -> None:
    if gone := lost(pipeline, paths):
        raise HistoryLost(
            f"pipeline {pipeline.name}: {', '.join(gone)}: the history is gone, though its current table is there: "
            "bring its folder back, or rebuild it with a backfill over everything (no range)"
        )
