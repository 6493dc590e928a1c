"""`txloom dbt`: a pipeline's tables as sources of dbt, with their columns, and with freshness out of the newest cut."""

import argparse
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import yaml

from txloom.config import find, names
from txloom.config.models.expectations import ValidThroughExpectation
from txloom.config.models.pipeline import Aggregate, Pipeline, Table
from txloom.errors import ConfigurationError, TxloomError

HEAD = """# Written by `txloom dbt {name}{flags}`. Write it again when the declaration changes.
# The age of a table is that of the newest transaction in the newest cut: `dbt source freshness` (dbt 1.10 or newer).
"""
NO_LIMIT = """# {name} declares no limit, so dbt checks no freshness: declare alerts.valid_through_age, or an
# expectation of kind valid_through_age.
"""
LOADED_AT = "select max(coalesce(committed_at, published_at)) from "
"""The source's clock where it gives commits a time; dbt counts the age from it."""
PERIODS = (("day", 1440), ("hour", 60), ("minute", 1))
Values = dict[str, Any]


def main(given: argparse.Namespace) -> int:
    """Run the command and return its exit code; a TxloomError is printed to stderr."""
    try:
        text = _text(given)
        if given.out is None:
            print(text, end="")
        elif given.out.exists() and not given.force:
            raise ConfigurationError(f"{given.out}: it exists already; --force replaces it.")
        else:
            given.out.write_text(text)
    except TxloomError as error:
        print(f"txloom dbt: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _text(given: argparse.Namespace) -> str:
    warehouse = given.warehouse or os.environ.get("TXLOOM_WAREHOUSE")
    if not warehouse:
        raise ConfigurationError("no warehouse: pass --warehouse or set TXLOOM_WAREHOUSE")
    pipeline = find(given.pipeline, connected=False)
    values = sources(pipeline, warehouse, given.engine, given.schema)
    flags = "".join(f" --{name} {value}" for name in ("engine", "schema") if (value := getattr(given, name)))
    head = HEAD.format(name=pipeline.name, flags=flags)
    if "freshness" not in values["sources"][0]["config"]:
        head += NO_LIMIT.format(name=pipeline.name)
    return head + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)


def sources(pipeline: Pipeline, warehouse: str, engine: str | None = None, schema: str | None = None) -> Values:
    """Return the content of dbt's file of sources.

    Args:
        pipeline: the declaration.
        warehouse: the path or URI below which its tables lie.
        engine: what reads them. spark (None): by name, in the schema that `targets.catalog` registers them in; duckdb:
            by path, through its extension delta.
        schema: another schema, with its catalog or without, for spark.
    """
    by_path = engine == "duckdb"
    folder = names.table_path(warehouse, pipeline.name, "")
    cuts = f"delta_scan('{folder}{names.CUTS}')" if by_path else f"delta.`{folder}{names.CUTS}`"
    config: Values = {"loaded_at_query": f"{LOADED_AT}{cuts}"}
    if limits := _freshness(pipeline):
        config["freshness"] = limits
    config["meta"] = {"owner": pipeline.owner}
    if by_path:
        config["meta"]["external_location"] = f"delta_scan('{folder}{{name}}')"
    source: Values = {"name": pipeline.name}
    source |= {"description": pipeline.description} if pipeline.description else {}
    source |= {} if by_path else _schema(schema or pipeline.targets.catalog or pipeline.name)
    source |= {"loader": "txloom", "config": config, "tables": list(_tables(pipeline))}
    return {"version": 2, "sources": [source]}


def _schema(name: str) -> dict[str, str]:
    """Return dbt's database and schema of a schema's name."""
    database, _, schema = name.rpartition(".")
    return ({"database": database} if database else {}) | {"schema": schema}


def _freshness(pipeline: Pipeline) -> Values:
    """Return from which age on dbt warns and fails, as the alerts and expectations of the pipeline do."""
    errors = [pipeline.alerts.valid_through_age] if pipeline.alerts and pipeline.alerts.valid_through_age else []
    warnings = list[timedelta]()
    for each in pipeline.expectations:
        if isinstance(each, ValidThroughExpectation):
            (errors if each.severity == "block" else warnings).append(each.older_than)
    limits = {"warn_after": warnings, "error_after": errors}
    return {name: _period(min(ages)) for name, ages in limits.items() if ages}


def _period(age: timedelta) -> Values:
    """Return a duration as dbt writes one; it knows no seconds, so these are rounded up.

    >>> _period(timedelta(hours=36)), _period(timedelta(seconds=61))
    ({'count': 36, 'period': 'hour'}, {'count': 2, 'period': 'minute'})
    """
    minutes = -(-age // timedelta(minutes=1))
    period, size = next((name, size) for name, size in PERIODS if minutes % size == 0)
    return {"count": minutes // size, "period": period}


def _tables(pipeline: Pipeline) -> Iterator[Values]:
    """Yield the current and history tables with their declared columns, as Spark names their types."""
    for aggregate in pipeline.targets.aggregates:
        root = pipeline.table(aggregate.root)
        columns = [*_columns(root), *_children(pipeline, aggregate)]
        yield _table(aggregate.current, f"Documents of {root.source}, one for each {', '.join(root.key)}", columns)
    for mirror in pipeline.targets.mirrors:
        table = pipeline.table(mirror.table)
        key = f", one for each {', '.join(table.key)}" if table.key else ""
        yield _table(mirror.current, f"The rows of {table.source}{key}", _columns(table))
        yield _table(mirror.history, f"Every change of {table.source}", _columns(table))


def _table(name: str, description: str, columns: list[Values]) -> Values:
    return {"name": name, "description": description, "columns": columns}


def _columns(table: Table) -> list[Values]:
    return [{"name": column.name, "data_type": column.type.spark} for column in table.columns]


def _children(pipeline: Pipeline, aggregate: Aggregate) -> Iterator[Values]:
    for child in aggregate.children:
        table = pipeline.table(child.table)
        row = "struct<" + ", ".join(f"{column.name}: {column.type.spark}" for column in table.columns) + ">"
        description = f"{table.source}, by {', '.join(child.parent_key)}"
        kind = row if child.relation == "one" else f"array<{row}>"
        yield {"name": child.as_, "data_type": kind, "description": description}
