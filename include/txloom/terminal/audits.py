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
from txloom.steps.audit.audit import audit
from txloom.steps.audit.audit_scope import Choice
from txloom.steps.runner import listed, log_to_output
from txloom.steps.step import Step, no_session
from txloom.storage.checks.audited_rows import DIFFERENT, DOCUMENTS, ROWS
from txloom.storage.paths import TablePaths
from txloom.storage.views.pipeline.audits import audits
from txloom.terminal.status import grid
from txloom.terminal.texts import COLORS, shown

DIFFERS = 6
"""Exit code: some rows differ, or could not be decided."""
REPAIR = "To load just these rows, as the source has them: the repair DAG, or jobs/repair.py --audit"
COMPOSE = "To compose the documents of their rows again: the backfill DAG, or jobs/backfill.py, of the aggregate"
OTHER_SIDE = {ROWS: "in the source", DOCUMENTS: "of its rows"}
"""What the lake is compared with, by the kind of a result."""
STYLES = {"equal": "green", "different": "red"}


def answer(given: argparse.Namespace, warehouse: str) -> tuple[Any, list[RenderableType], int]:
    """Run an audit; return its results, what a terminal shows of them, and the exit code."""
    pipeline, run_id = find(given.pipeline), f"manual__{uuid.uuid4().hex[:12]}"
    if not given.json:
        log_to_output()
    wait = None if given.wait is None else timedelta(seconds=given.wait)
    step = Step(pipeline, TablePaths(warehouse, pipeline.name), run_id, no_session)
    counts = audit(step, Choice(listed(given.table), wait, given.snapshot, given.csn))
    rows = list(audits(pipeline, warehouse, size=1_000, run_id=run_id).rows)
    equal = counts["tables"] and not any(counts[name] for name in ("differing", "unsettled", "behind", "undecided"))
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
        said = [
            *([f"{row['verdict']}: {row['reason']}"] if row["reason"] else []),
            *map(_left_out, row["not_compared"]),
        ]
        yield from (Text(f"{row['table']}: {each}") for each in said)
        if row["differences"]:
            more = ", the first of them" if row["has_more"] else ""
            yield grid(
                f"{row['table']}: {row['kind']} that differ: {row['differing']}{more}",
                ("row", "what", "in the lake", OTHER_SIDE[row["kind"]], "since csn"),
                [_difference(each) for each in row["differences"]],
            )
    if any(row["verdict"] == DIFFERENT and row["kind"] == ROWS for row in rows):
        yield Text(f"{REPAIR} {rows[0]['run_id']}")
    if any(row["verdict"] == DIFFERENT and row["kind"] == DOCUMENTS for row in rows):
        yield Text(COMPOSE)


def _left_out(note: str) -> str:
    return f"not compared: {note}"


def _difference(each: dict[str, Any]) -> list[Any]:
    key = ", ".join(f"{name}={'null' if part is None else part}" for name, part in each["key"].items())
    return [key, each["what"], each["lake"], each["source"], each["csn"]]
