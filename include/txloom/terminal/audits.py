"""`txloom audit`: compare the lake with the live database, and show what differs, table by table."""

import argparse
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from txloom.config import find
from txloom.config.problems import counted
from txloom.steps.audit.audit import Choice, audit
from txloom.steps.runner import listed, log_to_output
from txloom.steps.step import Step, no_session
from txloom.storage.checks.audited_rows import DIFFERENT
from txloom.storage.paths import TablePaths
from txloom.storage.views.pipeline.audits import audits
from txloom.terminal.status import grid
from txloom.terminal.texts import COLORS, shown

DIFFERS = 6
"""Exit code: some rows differ, or could not be decided."""
REPAIR = "To load just these rows, as the source has them: the repair DAG, or jobs/repair.py --audit"
STYLES = {"equal": "green", "different": "red"}


def answer(given: argparse.Namespace, warehouse: str) -> tuple[Any, list[RenderableType], int]:
    """Run an audit; return its results, what a terminal shows of them, and the exit code."""
    pipeline, run_id = find(given.pipeline), f"manual__{uuid.uuid4().hex[:12]}"
    if not given.json:
        log_to_output()
    wait = None if given.wait is None else timedelta(seconds=given.wait)
    step = Step(pipeline, TablePaths(warehouse, pipeline.name), run_id, no_session)
    counts = audit(step, Choice(listed(given.table), wait, given.snapshot, given.csn))
    rows = [row for row in audits(pipeline, warehouse, size=1_000).rows if row["run_id"] == run_id]
    equal = counts["tables"] and not any(counts[name] for name in ("differing", "unsettled", "behind"))
    return {"counts": counts, "tables": rows}, list(_drawn(rows)), 0 if equal else DIFFERS


def _drawn(rows: list[dict[str, Any]]) -> Iterator[RenderableType]:
    columns = ("verdict", "table", "rows", "differ", "still changing", "as of cut", "csn")
    cells = [
        [
            shown(row["verdict"], COLORS[STYLES.get(row["verdict"], "amber")]),
            *(row[name] for name in ("table", "rows", "differing", "unsettled", "cut_id", "valid_through")),
        ]
        for row in rows
    ]
    yield grid(f"audit: {counted(len(rows), 'table')}", columns, cells)
    for row in rows:
        if row["differences"]:
            more = ", the first of them" if row["has_more"] else ""
            yield grid(
                f"{row['table']}: rows that differ: {row['differing']}{more}",
                ("row", "what", "in the lake", "in the source", "since csn"),
                [_difference(each) for each in row["differences"]],
            )
    if any(row["verdict"] == DIFFERENT for row in rows):
        yield Text(f"{REPAIR} {rows[0]['run_id']}")


def _difference(each: dict[str, Any]) -> list[Any]:
    key = ", ".join(f"{name}={part}" for name, part in each["key"].items())
    what = {"missing": "missing in the lake", "extra": "not in the source"}.get(each["kind"], each["column"])
    return [key, what, each["lake"], each["source"], each["csn"]]
