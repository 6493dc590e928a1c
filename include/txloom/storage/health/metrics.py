"""The state of a pipeline as numbers for a monitoring system, and as Prometheus' text format.

Names and units are promises to dashboards and alert rules: docs/neighbours.md lists them.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from txloom.config.models.pipeline import Pipeline
from txloom.quality.incidents import Facts
from txloom.storage.delta.read_session import reading
from txloom.storage.health.facts import facts
from txloom.storage.paths import TablePaths

PREFIX = "txloom"
UP, STEP_SECONDS = "up", "step_seconds"
HELP = {
    UP: "1 where the tables of the pipeline can be read, else 0",
    "valid_through_age_seconds": "Seconds since the source committed the newest transaction that readers see",
    "last_cut_age_seconds": "Seconds since the newest cut was published",
    "waiting_transactions": "Transactions that wait for missing parts",
    "waiting_age_seconds": "Seconds for which the longest of them has waited; 0 where none waits",
    "dead_letters_open": "Dead letters that are open",
    "findings_open": "Findings that are open",
    "expectations_failing": "Expectations that failed when they were last checked",
    STEP_SECONDS: "How long a task of the pipeline last took, in seconds",
}
"""What each metric says, by its name without the prefix."""
FINDINGS, EXPECTATIONS = ("error", "warn", "info"), ("block", "warn", "info")
AT_ONCE = 4
"""Pipelines that are read in parallel."""


@dataclass(frozen=True)
class Metric:
    """One number of a pipeline; name: one of HELP. labels: what distinguishes it beside the pipeline."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def metrics(known: Facts) -> list[Metric]:
    """Return the state that facts describe; ages are left out while nothing was published."""
    ages = {"valid_through_age_seconds": known.valid_at, "last_cut_age_seconds": known.published_at}
    waits = 0.0 if known.waiting.since is None else _age(known.now, known.waiting.since)
    return [
        *(Metric(name, _age(known.now, at)) for name, at in ages.items() if at is not None),
        Metric("waiting_transactions", known.waiting.total),
        Metric("waiting_age_seconds", waits),
        Metric("dead_letters_open", known.dead_letters.total),
        *_by_severity("findings_open", FINDINGS, known.findings),
        *_by_severity("expectations_failing", EXPECTATIONS, known.expectations),
    ]


def _age(now: datetime, at: datetime) -> float:
    """Return seconds; a source whose clock is ahead has no negative age."""
    return round(max(0.0, (now - at).total_seconds()), 3)


def _by_severity(name: str, severities: Iterable[str], rows: Sequence[Mapping[str, str]]) -> list[Metric]:
    """Return a number for each severity, also where it is 0, so that a closed one does not stay at its last number."""
    return [Metric(name, sum(row["severity"] == each for row in rows), {"severity": each}) for each in severities]


def exposition(
    pipelines: Sequence[Pipeline],
    warehouse: str,
    seconds: Mapping[str, Mapping[str, float]],
    now: datetime | None = None,
) -> str:
    """Return the metrics of pipelines in Prometheus' text format, version 0.0.4.

    A pipeline whose tables cannot be read has only `txloom_up` 0 and its steps, and hides no other one.

    Args:
        pipelines: the declarations.
        warehouse: where their tables are.
        seconds: by pipeline and task, how long the task last took.
        now: the time that ages are counted to.
    """
    at = now or datetime.now(UTC)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        of_tables = list(threads.map(lambda each: _of_tables(each, warehouse, at), pipelines))
    lines: dict[str, list[str]] = {}
    for pipeline, numbers in zip(pipelines, of_tables, strict=True):
        steps = seconds.get(pipeline.name, {}).items()
        for metric in (*numbers, *(Metric(STEP_SECONDS, took, {"task": task}) for task, took in steps)):
            labels = {"pipeline": pipeline.name, **metric.labels}
            text = ",".join(f'{name}="{value}"' for name, value in labels.items())
            lines.setdefault(metric.name, []).append(f"{PREFIX}_{metric.name}{{{text}}} {metric.value}")
    return "".join(f"{_head(name)}{chr(10).join(lines[name])}\n" for name in HELP if name in lines)


def _head(name: str) -> str:
    return f"# HELP {PREFIX}_{name} {HELP[name]}\n# TYPE {PREFIX}_{name} gauge\n"


def _of_tables(pipeline: Pipeline, warehouse: str, now: datetime) -> list[Metric]:
    try:
        with reading():
            return [Metric(UP, 1), *metrics(facts(pipeline, TablePaths(warehouse, pipeline.name), now))]
    except Exception:  # noqa: BLE001 (one broken pipeline must not hide the others)
        return [Metric(UP, 0)]
