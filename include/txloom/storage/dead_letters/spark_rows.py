"""Dead letters from rows of change_events."""

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txloom.storage.system_tables import DEAD_LETTERS


def as_dead_letters(events: DataFrame, at: datetime, release: int) -> DataFrame:
    """Return rows of change_events, with cause and detail, in the schema of dead_letters.

    at: when they were given up. release: the batch that gave them up.
    """
    plain = [name for name in DEAD_LETTERS.names if name not in ("dead_at", "release")]
    return events.select(*plain, F.lit(at).alias("dead_at"), F.lit(release).cast("bigint").alias("release"))
