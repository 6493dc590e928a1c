"""register_tables: let a catalog know the pipeline's tables by name; the tables stay where they lie."""

import logging

from txloom.errors import ConfigurationError
from txloom.steps.step import Step
from txloom.storage.delta import spark_tables
from txloom.storage.targets.catalog import location_of, register

LOG = logging.getLogger(__name__)


def register_tables(step: Step) -> dict[str, int]:
    """Register current and history tables that exist in the schema `targets.catalog`, those that are not there yet.

    Returns:
        tables: how many there are; registered: how many were registered now.

    Raises:
        ConfigurationError: the schema has another table under one of the names.
    """
    targets, paths = step.pipeline.targets, step.paths
    if targets.catalog is None:
        return {"tables": 0, "registered": 0}
    documents = [(each.current, each.history) for each in targets.aggregates]
    mirrors = [(each.current, each.history) for each in targets.mirrors]
    chosen = {name: paths.table(name) for pair in (*documents, *mirrors) for name in pair}
    existing = {name: path for name, path in chosen.items() if spark_tables.exists(path)}
    registered = 0
    for name, path in existing.items():
        there = location_of(step.spark, targets.catalog, name)
        if there is None:
            register(step.spark, targets.catalog, name, path)
            registered += 1
        elif _plain(there) != _plain(path):
            raise ConfigurationError(
                f"{targets.catalog}.{name} is registered at {there}, and this pipeline's table lies at {path}: drop it "
                "there, or name another schema in targets.catalog"
            )
    return {"tables": len(existing), "registered": registered}


def _plain(location: str) -> str:
    """Return a location without what differs between ways to write one.

    >>> _plain("file:/lake/orders/"), _plain("file:///lake/orders"), _plain("s3://lake/orders")
    ('/lake/orders', '/lake/orders', 's3://lake/orders')
    """
    return location.removeprefix("file://").removeprefix("file:").rstrip("/")
