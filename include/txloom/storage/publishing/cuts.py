"""The newest cut, which several rooms ask for."""

from typing import Any

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths


def newest_cut(paths: TablePaths, columns: str = "*", where: str = "true") -> dict[str, Any] | None:
    """Return the newest cut, or the newest of which a condition holds; None where there is none."""
    sql = f"select {columns} from t where {where} order by cut_id desc limit 1"
    return next(iter(small_tables.query(paths.table(names.CUTS), sql)), None)
