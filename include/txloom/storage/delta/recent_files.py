"""What bounds of files say of a table that grows by a small file with each commit, without reading all of its files."""

from datetime import UTC, datetime, timedelta
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from txloom.storage.delta.read_session import metadata

FEW = 24
"""Files from which the newest rows are read; a run adds a few."""


def newest_since(table: DeltaTable) -> datetime | None:
    """Return a time such that the FEW newest files hold every row whose column `at` is not before it.

    None: the table has no more files than that, or a file without bounds of `at`, so that all are to be read.
    """
    return metadata(table, _newest_since)


def lowest(table: DeltaTable, column: str) -> int | None:
    """Return the lowest value of a column of integers by the bounds of the table's files; None: they do not say it."""
    files = metadata(table, _bounds)
    name = f"min.{column}"
    if name not in files.column_names or not files.num_rows or files.column(name).null_count:
        return None
    return cast("int", pc.min(files.column(name)).as_py())


def highest_before(table: DeltaTable, column: str, landing: int) -> int | None:
    """Return a value that a column of integers does not exceed in rows of landings before one; None: it is not known.

    By the bounds of the table's files: the value may be that of a later landing whose rows share a file with earlier
    ones.
    """
    files = metadata(table, _bounds)
    name, since = f"max.{column}", "min.landing"
    if name not in files.column_names or since not in files.column_names:
        return None
    is_earlier = pc.less(files.column(since), pa.scalar(landing)).fill_null(True)
    earlier = files.filter(cast("pa.BooleanArray", is_earlier))
    return cast("int | None", pc.max(earlier.column(name)).as_py())


def _bounds(table: DeltaTable) -> pa.Table:
    return pa.table(table.get_add_actions(flatten=True))


def _newest_since(table: DeltaTable) -> datetime | None:
    files = _bounds(table)
    if files.num_rows <= FEW or "max.at" not in files.column_names or files.column("max.at").null_count:
        return None
    moments = cast("list[datetime]", files.column("max.at").to_pylist())
    moment = sorted(moments, reverse=True)[FEW - 1]
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment) - timedelta(milliseconds=1)
