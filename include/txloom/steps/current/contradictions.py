"""Findings from contradictions: changes whose image before is not the row that the current table has."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.current.folding.contradictions import DIFFERS, EXISTS, UNKNOWN
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.storage.checks import findings
from txloom.storage.dead_letters import open_letters
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_reader
from txloom.storage.targets.row_tables import row_tables

MOST_CONTRADICTIONS = 1_000
"""Contradictions of a table that are kept: of each kind and column one finding is recorded."""
COUNTED = re.compile(r"(?:^|, )(\w+) \d+/(?:\d+|\?)(?=,|$)")
CODES = {DIFFERS: f.CHANGED, EXISTS: f.KEY_TWICE, UNKNOWN: f.UNKNOWN_ROW}


def findings_of(
    paths: TablePaths, contradictions: Mapping[str, Sequence[str]], incomplete: Collection[str] = ()
) -> list[Finding]:
    """Return the findings for contradictions, in the order of table names; nothing is written.

    A table with open dead letters is left out, and one of which a dead transaction lacks rows: its rows may differ
    because of them, as the cuts say. An incomplete table is left out too: its finding "history is not complete" names
    the missing changes, and closes when the table is complete.

    Args:
        paths: the tables of the pipeline.
        contradictions: by table, JSON texts as `txloom.current.folding.contradictions` writes them.
        incomplete: the source tables whose histories are not complete.
    """
    if not any(contradictions.values()):
        return []
    letters = open_letters.open_dead_letters(paths, 'distinct "table", detail').to_pylist()
    broken = {row["table"] for row in letters} | {table for row in letters for table in counted(row["detail"])}
    return [
        _finding(table, json.loads(text))
        for table in sorted({*contradictions} - broken - {*incomplete})
        for text in contradictions[table]
    ]


def counted(detail: str | None) -> list[str]:
    """Return the tables whose counts a dead letter's detail has (`txloom.steps.buffer.give_up.describe`).

    >>> counted("order_line_items 3/4, orders 0/1"), counted("transaction 7"), counted(None)
    (['order_line_items', 'orders'], [], [])
    """
    return COUNTED.findall(detail or "")


def close_agreeing(
    pipeline: Pipeline, paths: TablePaths, tables: Collection[str], known: Iterable[dict[str, Any]], run_id: str
) -> None:
    """Close findings about changed values in tables whose changes no longer contradict each other.

    An edit may give values to rows that lacked them, for example by adding the former name of a column to
    `source_aliases`. If the change that showed the difference was removed from history, the finding stays open. A
    repeated call closes nothing more.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        tables: the source tables whose rows are all computed from history, without any contradiction.
        known: open findings, as rows of `findings`.
        run_id: the run that closes them.
    """
    since = {
        each.table.name: history_reader.cleaned(paths, each)
        for each in row_tables(pipeline)
        if each.table.name in tables
    }
    # A finding without a transaction names values that are null because their messages are gone: it is left open.
    shown = (row for row in known if row["code"] == f.CHANGED and row["table"] in since and row["xid"] is not None)
    over = [row for row in shown if (row["since_csn"] or 0) > since[row["table"]]]
    findings.close(paths, over, run_id, "all rows were recomputed from history, and no image before differs")


def _finding(table: str, about: Mapping[str, object]) -> Finding:
    what = str(about["what"])
    shown = f"row {about['key']}: {what}"
    if what == DIFFERS:
        shown += f"; the image before has {about['told']!r}, the stored row has {about['held']!r}"
    column = about["column"]
    return Finding(
        CODES[what], table, None if column is None else str(column), int(str(about["csn"])), str(about["xid"]), shown
    )
