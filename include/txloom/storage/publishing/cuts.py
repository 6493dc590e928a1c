"""Read the newest cut."""

from typing import Any

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths


def newest_cut(paths: TablePaths, columns: str = "*", where: str = "true") -> dict[str, Any] | None:
    """Return the row of the newest cut, or None.

    columns: as SQL lists them. where: a SQL condition, so that the newest cut is returned for which it holds.
    """
    sql = f"select {columns} from t where {where} order by cut_id desc limit 1"
    return next(iter(small_tables.query(paths.table(names.CUTS), sql)), None)
