"""Create the history tables of a pipeline, and take back what an earlier checkpoint epoch wrote into them."""

import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.storage import system_tables
from txloom.storage.buffer import checkpoints
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.delta import schema_evolution, small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import watermark_of
from txloom.storage.stores.delta_tables import is_table
from txloom.storage.targets import schemas

PROPERTIES = {**small_tables.DELETION_VECTORS, "delta.dataSkippingStatsColumns": "_txloom_csn,_txloom_release"}


def create(pipeline: Pipeline, paths: TablePaths) -> None:
    """Create the tables that the buffer writes, or bring them to their declared columns; a repeated call does nothing.

    Raises:
        ConfigurationError: a declared type does not hold every value of a history.
        LeaseTaken: another run holds the lease.
    """
    small_tables.ensure(paths.table(names.TRANSACTIONS), system_tables.TRANSACTIONS)
    for mirror in pipeline.targets.mirrors:
        ensure(paths.table(mirror.history), schemas.changes_schema(pipeline.table(mirror.table)))
    for aggregate in pipeline.targets.aggregates:
        ensure(paths.table(aggregate.history), schemas.stream_schema(pipeline, aggregate))


def take_back(pipeline: Pipeline, paths: TablePaths, epoch: int) -> int:
    """Delete rows of history that a batch of an earlier checkpoint epoch appended before it died.

    Such a batch wrote history and not its transactions, and its checkpoint was lost, so that the rebuilt buffer
    releases the rows again. Nothing is read once the first batch of the epoch is complete.

    Args:
        pipeline: the declaration.
        paths: where the tables are.
        epoch: the checkpoint epoch that runs.

    Returns:
        how many rows were deleted; 0 when repeated.

    Raises:
        LeaseTaken: another run holds the lease.
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
    """Create a history table, or bring it to its declared columns; errors are those of `schema_evolution.ensure`."""
    schema_evolution.ensure(path, schema, PROPERTIES)


def lost(pipeline: Pipeline, paths: TablePaths) -> list[str]:
    """Return the history tables that do not exist although rows of them were merged into a current table."""
    gone = [(history, current) for history, current in _made(pipeline) if not _is_there(paths, history)]
    return [history for history, current in gone if _is_merged(paths, current)]


def _made(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return the names of each history table and of the current table that is merged from it."""
    made = [(each.history, each.current) for each in pipeline.targets.mirrors]
    return made + [(each.history, each.current) for each in pipeline.targets.aggregates]


def _is_there(paths: TablePaths, table: str) -> bool:
    return is_table(paths.table(table))


def _is_merged(paths: TablePaths, current: str) -> bool:
    return _is_there(paths, current) and watermark_of(paths.table(current)).release > 0
