"""The cuts that were published: read the newest, append the next."""

from typing import Any

from txloom.config import names
from txloom.storage.delta import schema_evolution, small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import CUTS


def newest_cut(paths: TablePaths, columns: str = "*", where: str = "true") -> dict[str, Any] | None:
    """Return the row of the newest cut, or None.

    columns: as SQL lists them. where: a SQL condition, so that the newest cut is returned for which it holds.
    """
    sql = f"select {columns} from t where {where} order by cut_id desc limit 1"
    return next(iter(small_tables.query(paths.table(names.CUTS), sql)), None)


def append_cut(paths: TablePaths, cut: dict[str, Any]) -> None:
    """Append a cut (schema: `system_tables.CUTS`); one with its number is not appended twice."""
    path = paths.table(names.CUTS)
    schema_evolution.ensure(path, CUTS)
    small_tables.append(path, [cut], CUTS, once=(names.write_id(paths.pipeline, names.CUTS, 0), cut["cut_id"]))
