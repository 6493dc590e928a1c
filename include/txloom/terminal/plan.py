"""`txloom plan`: what a declaration will make, before anything is written."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from txloom.config import names
from txloom.config.models.durations import show_duration
from txloom.config.models.pipeline import Pipeline
from txloom.steps.settling.planned_tables import AS_IT_IS, LANDED, NEW, NOT_DECLARED, planned_tables
from txloom.terminal.status import grid
from txloom.terminal.texts import shown


def answer(
    pipeline: Pipeline, warehouse: str | None, name_or_file: str = ""
) -> tuple[dict[str, Any], list[RenderableType]]:
    """Return what a declaration will make, and what a terminal shows of it.

    Raises:
        ConfigurationError: the next cycle refuses the declaration.
    """
    tables = planned_tables(pipeline, warehouse, name_or_file)
    values = {
        "pipeline": pipeline.name,
        "reads": _reads(pipeline),
        "dags": dict(_dags(pipeline)),
        "tables": [vars(table) for table in tables],
        "estimated_seconds": sum(table.seconds for table in tables),
        "expectations": {each.id: each.severity for each in pipeline.expectations},
    }
    return values, list(_drawn(pipeline, values))


def edits(pipeline: Pipeline, warehouse: str, name_or_file: str) -> list[str]:
    """Return in words what the next cycle does to the tables of a warehouse because the declaration changed.

    Raises:
        ConfigurationError: the next cycle refuses the declaration.
    """
    tables = planned_tables(pipeline, warehouse, name_or_file)
    if all(table.state == NEW for table in tables):
        return []
    return [f"{table.name}: {table.state}" for table in tables if table.state != AS_IT_IS]


def _reads(pipeline: Pipeline) -> list[str]:
    """Return where messages come from, in words."""
    source = pipeline.source
    if source.kafka is not None:
        topics = [*source.kafka.topics, *([source.transaction_topic] if source.transaction_topic else [])]
        return [f"topic {topic} at {source.kafka.brokers}" for topic in dict.fromkeys(topics)]
    assert source.files is not None
    return [f"files below {source.files.path}, a folder for each {'date' if source.snapshots else 'topic'}"]


def _dags(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Yield each DAG with its schedule."""
    name, by_hand = pipeline.name, "by hand"
    cycle = f"after {', '.join(pipeline.after)}" if pipeline.after else pipeline.schedule
    yield names.cdc_dag_id(name), cycle or by_hand
    if pipeline.alerts is not None:
        yield names.alerts_dag_id(name), pipeline.alerts.schedule or "at the end of each cycle"
    yield names.maintenance_dag_id(name), pipeline.maintenance.schedule or by_hand
    if pipeline.audit is not None:
        yield names.audit_dag_id(name), pipeline.audit.schedule or by_hand
        yield names.repair_dag_id(name), by_hand
    if pipeline.source.signals is not None:
        yield names.snapshot_dag_id(name), by_hand
    for dag in (names.load_dag_id, names.backfill_dag_id, names.dead_letters_dag_id):
        yield dag(name), by_hand
    yield names.consumer_dag_id(name), "after each cut: an example of a reader"


def _no_key(table: Mapping[str, Any]) -> str:
    """Return what is shown of a table for which no key is declared."""
    return "" if table["what"] in (LANDED, NOT_DECLARED) else "none"


def _drawn(pipeline: Pipeline, values: dict[str, Any]) -> Iterator[RenderableType]:
    yield Text.assemble(shown(pipeline.name, "bold"), f"  {pipeline.source.format}, {pipeline.completeness.rule}")
    yield grid("reads", ("where",), [[each] for each in values["reads"]])
    yield grid("DAGs", ("dag", "runs"), list(values["dags"].items()))
    columns = ("table", "what", "key", "columns", "the next run")
    rows = [
        [each["name"], each["what"], ", ".join(each["key"]) or _no_key(each), each["columns"], each["state"]]
        for each in values["tables"]
    ]
    yield grid("tables", columns, rows)
    if values["estimated_seconds"]:
        longer = show_duration(timedelta(seconds=values["estimated_seconds"]))
        yield Text(f"The next cycle takes about {longer} longer, on one core.", "dim")
    meaning = {"block": "nothing is published until it passes", "warn": "reported", "info": "reported"}
    checks = [[id_, severity, meaning[severity]] for id_, severity in values["expectations"].items()]
    yield grid("expectations", ("id", "severity", "when it fails"), checks)
