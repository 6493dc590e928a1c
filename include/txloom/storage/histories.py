"""The history tables of a pipeline, and how they are created."""

import pyarrow as pa
from deltalake import DeltaTable

from txloom.config import names
from txloom.config.models import Pipeline
from txloom.errors import HistoryLost
from txloom.storage import books, evolution, own, schemas
from txloom.storage.place import Place
from txloom.storage.progress import mark

PROPERTIES = {**books.DELETION_VECTORS, "delta.dataSkippingStatsColumns": "_txloom_csn,_txloom_release"}


def create(pipeline: Pipeline, place: Place) -> None:
    """Create the tables that the buffer writes, or bring them to their declared columns.

    Raises HistoryLost where a history is gone though its current table shows what was made of it: an empty one in its
    place would take rows away with the next late change.
    """
    books.ensure(place.table(names.TRANSACTIONS), own.TRANSACTIONS)
    _refuse_lost(pipeline, place)
    for mirror in pipeline.targets.mirrors:
        ensure(place.table(mirror.history), schemas.changes_schema(pipeline.table(mirror.table)))
    for aggregate in pipeline.targets.aggregates:
        ensure(place.table(aggregate.history), schemas.stream_schema(pipeline, aggregate))


def ensure(path: str, schema: pa.Schema) -> None:
    """Create a history, or bring it to its declared columns."""
    evolution.ensure(path, schema, PROPERTIES)


def lost(pipeline: Pipeline, place: Place) -> list[str]:
    """Return the histories that are not there although something was merged out of them."""
    made = [(each.history, each.current) for each in pipeline.targets.mirrors]
    made += [(each.history, each.current) for each in pipeline.targets.aggregates]
    return [history for history, current in made if not _is_there(place, history) and _is_merged(place, current)]


def _is_there(place: Place, table: str) -> bool:
    return bool(DeltaTable.is_deltatable(place.table(table)))


def _is_merged(place: Place, current: str) -> bool:
    return _is_there(place, current) and mark(place.table(current)).release > 0


def _refuse_lost(pipeline: Pipeline, place: Place) -> None:
    if gone := lost(pipeline, place):
        raise HistoryLost(
            f"pipeline {pipeline.name}: {', '.join(gone)}: the history is gone, though its current table is there: "
            "bring its folder back, or rebuild it with a backfill over everything (no range)"
        )
