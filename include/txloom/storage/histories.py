"""The history tables of a pipeline, and how they are created."""

from txloom.config import names
from txloom.config.models import Pipeline
from txloom.storage import books, evolution, own, schemas
from txloom.storage.place import Place

PROPERTIES = {**books.DELETION_VECTORS, "delta.dataSkippingStatsColumns": "_txloom_csn,_txloom_release"}


def create(pipeline: Pipeline, place: Place) -> None:
    """Create the tables that the buffer writes, or bring them to their declared columns."""
    books.ensure(place.table(names.TRANSACTIONS), own.TRANSACTIONS)
    for mirror in pipeline.targets.mirrors:
        evolution.ensure(place.table(mirror.history), schemas.changes_schema(pipeline.table(mirror.table)), PROPERTIES)
    for aggregate in pipeline.targets.aggregates:
        evolution.ensure(place.table(aggregate.history), schemas.stream_schema(pipeline, aggregate), PROPERTIES)
