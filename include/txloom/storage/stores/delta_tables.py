"""Delta tables opened by delta-rs, wherever they lie: the only place where one is opened by its path."""

from typing import Any

from deltalake import DeltaTable, write_deltalake

from txloom.storage.stores.access import delta_options


def table_at(path: str, version: int | None = None) -> DeltaTable:
    """Open a table; version: at that one, None: the newest.

    Raises:
        TableNotFoundError: there is no table.
        DeltaError: the table has no such version.
    """
    return DeltaTable(path, version=version, storage_options=delta_options(path))


def is_table(path: str) -> bool:
    """Return whether there is a Delta table at a path."""
    return bool(DeltaTable.is_deltatable(path, storage_options=delta_options(path)))


def create_table(path: str, schema: Any, **choices: Any) -> DeltaTable:
    """Create a table with a schema of Arrow, with the choices of `DeltaTable.create`, and return it."""
    return DeltaTable.create(path, schema, storage_options=delta_options(path), **choices)


def write_first(path: str, rows: Any, **choices: Any) -> None:
    """Create a table with rows; raises DeltaError where another writer has created it meanwhile."""
    # Mode `error`: the rows of the other one are not replaced.
    write_deltalake(path, rows, mode="error", storage_options=delta_options(path), **choices)
