"""The end of a table that grows by a small file with each commit: whoever asks for it reads few of its files."""

from datetime import UTC, datetime, timedelta
from typing import cast

import pyarrow as pa
from deltalake import DeltaTable

from txloom.storage.delta.read_session import metadata

FEW = 24
"""So many files are read at once: those of some runs."""


def newest_since(table: DeltaTable) -> datetime | None:
    """Return the moment from which on the newest files hold every row, by its column `at`; None: its files are few."""
    return metadata(table, _newest_since)


def _newest_since(table: DeltaTable) -> datetime | None:
    files = pa.table(table.get_add_actions(flatten=True))
    if files.num_rows <= FEW or "max.at" not in files.column_names or files.column("max.at").null_count:
        return None
    moments = cast("list[datetime]", files.column("max.at").to_pylist())
    moment = sorted(moments, reverse=True)[FEW - 1]
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment) - timedelta(milliseconds=1)
