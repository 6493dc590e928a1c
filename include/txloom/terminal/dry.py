"""`txloom dry-run`: what a pipeline would make of a sample of its source, and nothing of it stays."""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from txloom.config import find, names
from txloom.config.models.pipeline import Pipeline
from txloom.steps.dry_run import dry_run
from txloom.storage.views.paging import Page
from txloom.terminal import status
from txloom.terminal.texts import shown, shown_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TROUBLE = 6
"""Exit code: there would be dead letters, findings that are errors, or expectations that fail."""


def answer(
    given: argparse.Namespace, panels: Callable[[Pipeline, str, int], dict[str, Any]]
) -> tuple[Any, list[RenderableType], int]:
    """Run it; return the panels of what it made, what a terminal shows of them, and the exit code."""
    pipeline = find(given.pipeline)
    scratch = Path(tempfile.mkdtemp(prefix="txloom-dry-run-")) if given.keep is None else given.keep
    try:
        counts = dry_run(pipeline, scratch, cache(lambda: _session(pipeline, scratch)))
        values = panels(pipeline, str(scratch / "lake"), given.rows)
    finally:
        if given.keep is None:
            shutil.rmtree(scratch, ignore_errors=True)
    where = None if given.keep is None else str(scratch / "lake")
    return {"counts": counts, **values}, list(_drawn(pipeline, counts, values, where)), _code(values)


def _session(pipeline: Pipeline, scratch: Path) -> "SparkSession":
    from txloom.storage.spark.session import open_session

    return open_session(names.application_name(pipeline.name, "dry-run"), "dry_run", str(scratch / "lake"))


def _code(values: Mapping[str, Any]) -> int:
    failed = any(row["success"] is False for row in values["expectations"].rows)
    errors = any(row["severity"] == "error" for row in values["findings"].rows)
    return TROUBLE if values["letters"].listing.events or failed or errors else 0


def _drawn(
    pipeline: Pipeline, counts: Mapping[str, Any], values: Mapping[str, Any], where: str | None
) -> Iterator[RenderableType]:
    yield Text.assemble(shown(pipeline.name, "bold"), "  a sample, and nothing of it stays")
    for step, of_step in counts.items():
        yield shown(f"{step}: {shown_value({name: count for name, count in of_step.items() if count})}")
    yield from status.expectations(values["expectations"])
    yield from status.waiting(values["waiting"])
    yield from status.dead_letters(values["letters"])
    findings: Page = values["findings"]
    columns = ("severity", "code", "table", "column", "evidence", "hint")
    yield status.grid(
        f"findings: {findings.total}", columns, [[row[name] for name in columns] for row in findings.rows]
    )
    if where is not None:
        yield shown(f"its tables lie in {where}")
