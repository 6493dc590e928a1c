"""What a declaration will make: its tables, and what becomes of those that a warehouse has already."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from txloom.config.models.pipeline import Pipeline
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.stores.delta_tables import is_table
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import row_tables
from txloom.storage.views.paging import open_tables

SYSTEM = "_txloom_"


@dataclass(frozen=True)
class PlannedTable:
    """One table of the lake.

    name: of its folder. what: in words. key: its columns. columns: how many are declared. state: `new`, or what the
    next run does to the table that is there; `as it is` for nothing.
    """

    name: str
    what: str
    key: tuple[str, ...]
    columns: int
    state: str


@open_tables
def planned_tables(pipeline: Pipeline, warehouse: str | None) -> list[PlannedTable]:
    """Return the tables that readers of a pipeline get; nothing is written.

    warehouse: where tables may be already; None: none are.
    """
    paths = None if warehouse is None else TablePaths(warehouse, pipeline.name)
    made = list[PlannedTable]()
    for name, what, key, schema in _tables(pipeline):
        columns = [field for field in schema if not field.name.startswith(SYSTEM)]
        made.append(PlannedTable(name, what, key, len(columns), _state(paths, name, schema)))
    return made


def _tables(pipeline: Pipeline) -> Iterator[tuple[str, str, tuple[str, ...], pa.Schema]]:
    for row_table in row_tables(pipeline):
        if row_table.mirror is not None:
            source, key = row_table.table.source, tuple(row_table.table.key)
            what = f"rows that were inserted into {source}" if not key else f"current rows of {source}"
            yield row_table.current, what, key, row_table.schema
            history = schemas.changes_schema(row_table.table)
            yield row_table.mirror.history, f"every change of {source}", key, history
    for aggregate in pipeline.targets.aggregates:
        root = pipeline.table(aggregate.root)
        inside = ", ".join([aggregate.root, *(child.table for child in aggregate.children)])
        schema = schemas.document_schema(pipeline, aggregate)
        yield aggregate.current, f"documents of {inside}", tuple(root.key), schema
        history = schemas.stream_schema(pipeline, aggregate)
        yield aggregate.history, f"every transaction of {inside}", tuple(root.key), history


def _state(paths: TablePaths | None, name: str, declared: pa.Schema) -> str:
    """Return in words what becomes of a table."""
    if paths is None or not is_table(paths.table(name)):
        return "new"
    has = arrow_tables.plain_schema(small_tables.schema_of(paths.table(name)))
    changes = list[str]()
    if added := [field.name for field in declared if field.name not in has.names]:
        changes.append(f"gets {', '.join(added)}")
    if retyped := [
        f"{field.name} from {has.field(field.name).type} to {field.type}"
        for field in declared
        if field.name in has.names and _is_plain(field.type) and has.field(field.name).type != field.type
    ]:
        changes.append(f"is written anew: {', '.join(retyped)}, or refused where a value does not fit")
    if left := [name for name in has.names if name not in declared.names and not name.startswith(SYSTEM)]:
        changes.append(f"keeps {', '.join(left)}, which nobody declares")
    return "; ".join(changes) or "as it is"


def _is_plain(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind)
