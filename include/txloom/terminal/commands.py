"""Run `txloom status`, `explain`, `audit` and `plan`: check arguments, read the read model, show it or print JSON."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group, RenderableType

from txloom.config import discover, find
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError, TxloomError
from txloom.storage.delta.read_session import reading
from txloom.storage.views.paging import plain
from txloom.storage.views.pipeline import cuts, dead_letters, histories, problems, runs
from txloom.storage.views.pipeline.changes import changes, moment_of
from txloom.storage.views.pipeline.overview import health, overview
from txloom.storage.views.pipeline.waiting import waiting
from txloom.storage.views.stories.row import Story, key_story
from txloom.storage.views.stories.transaction import TransactionName, TransactionStory, transaction
from txloom.terminal import explain, status

NOTHING = 5
"""Exit code: the requested transaction or row is unknown."""
WIDTH = 160
"""Columns of output into a file or a pipe."""
Answer = tuple[Any, RenderableType, int]
"""The read model's values, what a terminal shows of them, and the exit code."""


def main(given: argparse.Namespace) -> int:
    """Run one of the commands and return its exit code; a TxloomError is printed to stderr."""
    try:
        values, drawn, code = ANSWERS[given.command](given)
    except TxloomError as error:
        print(f"txloom {given.command}: {error}", file=sys.stderr)
        return error.exit_code
    if given.json:
        print(json.dumps(plain(values), indent=2))
    else:
        width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
        Console(width=width, highlight=False, markup=False, emoji=False).print(drawn)
    return code


def _warehouse(given: argparse.Namespace) -> str:
    warehouse: str | None = given.warehouse or os.environ.get("TXLOOM_WAREHOUSE")
    if not warehouse:
        raise ConfigurationError("no warehouse: pass --warehouse or set TXLOOM_WAREHOUSE")
    return warehouse


def _status(given: argparse.Namespace) -> Answer:
    warehouse = _warehouse(given)
    since = None if given.since is None else moment_of(given.since, datetime.now(UTC))
    if given.pipeline is None:
        declared = discover()
        refused = {path.stem: str(shown) for path, shown in declared if isinstance(shown, ConfigurationError)}
        pipelines = [each for _, each in declared if isinstance(each, Pipeline)]
        shown = overview(pipelines, warehouse, refused=refused, since=since)
        return shown, status.overview(shown), 0
    pipeline = find(given.pipeline, connected=False)
    values = panels(pipeline, warehouse, given.rows, since)
    return values, Group(*status.one(values)), 0


def panels(pipeline: Pipeline, warehouse: str, size: int, since: datetime | None = None) -> dict[str, Any]:
    """Return everything that is shown of one pipeline, from one read session.

    size: rows of a list. since: also what changed since then, under `changes`.
    """
    with reading():
        changed = {} if since is None else {"changes": changes(pipeline, warehouse, since=since)}
        return changed | {
            "health": health(pipeline, warehouse),
            "expectations": problems.expectations(pipeline, warehouse, size=size),
            "waiting": waiting(pipeline, warehouse, size=size),
            "letters": dead_letters.causes(pipeline, warehouse),
            "findings": problems.open_findings(pipeline, warehouse, size=size),
            "cuts": cuts.cuts(pipeline, warehouse, size=min(size, 5)),
            "runs": runs.runs(pipeline, warehouse, size=min(size, 5)),
            "partitions": runs.partitions(pipeline, warehouse, size=size),
            "backfills": runs.backfills(pipeline, warehouse, size=min(size, 5)),
            "edits": runs.edits(pipeline, warehouse, size=min(size, 5)),
            "holds": cuts.holds(pipeline, warehouse, size=size),
            "histories": histories.histories(pipeline, warehouse, size=size),
            "incidents": problems.incidents(pipeline, warehouse, size=size),
        }


def _explain(given: argparse.Namespace) -> Answer:
    if sum(each is not None for each in (given.xid, given.csn, given.key)) != 1:
        raise ConfigurationError("explain what? give one of XID, --csn N and --key TABLE COLUMN=VALUE")
    warehouse, pipeline = _warehouse(given), find(given.pipeline, connected=False)
    size, number = given.rows, given.page
    if given.key is not None:
        table, *parts = given.key
        story: Story = key_story(pipeline, warehouse, table, _key(table, parts), number=number, size=size)
        return story, Group(*explain.key(story)), 0 if story.page.total or story.current else NOTHING
    name = TransactionName(given.xid, given.csn)
    shown_story: TransactionStory = transaction(pipeline, warehouse, name, number=number, size=size)
    if not shown_story.total and given.xid is not None:
        shown_story = transaction(
            pipeline, warehouse, TransactionName(transaction_id=given.xid), number=number, size=size
        )
    title = f"csn {given.csn}" if given.csn is not None else f"xid {given.xid}"
    return (
        shown_story,
        Group(*explain.transaction(shown_story, title, pipeline.name)),
        0 if shown_story.total else NOTHING,
    )


def _audit(given: argparse.Namespace) -> Answer:
    from txloom.terminal import audits

    values, drawn, code = audits.answer(given, _warehouse(given))
    return values, Group(*drawn), code


def _plan(given: argparse.Namespace) -> Answer:
    from txloom.terminal import plan

    warehouse = given.warehouse or os.environ.get("TXLOOM_WAREHOUSE")
    values, drawn = plan.answer(find(given.pipeline, connected=False), warehouse, given.pipeline)
    return values, Group(*drawn), 0


def _dry_run(given: argparse.Namespace) -> Answer:
    from txloom.terminal import dry

    values, drawn, code = dry.answer(given, panels)
    return values, Group(*drawn), code


ANSWERS = {"status": _status, "explain": _explain, "audit": _audit, "plan": _plan, "dry-run": _dry_run}


def _key(table: str, parts: Sequence[str]) -> dict[str, str]:
    pairs = [part.partition("=") for part in parts]
    wrong = next((name for name, sign, _ in pairs if not sign), None)
    if wrong is not None:
        raise ConfigurationError(f"--key {table}: found {wrong!r}, expected COLUMN=VALUE")
    return {name: value for name, _, value in pairs}
