"""Findings from contradictions: changes whose image before is not the row that the current table has."""

import json
import re
from collections.abc import Collection, Mapping, Sequence

from txloom.current.folding.contradictions import DIFFERS, EXISTS, UNKNOWN
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.storage.dead_letters import open_letters
from txloom.storage.paths import TablePaths

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


def _finding(table: str, about: Mapping[str, object]) -> Finding:
    what = str(about["what"])
    shown = f"row {about['key']}: {what}"
    if what == DIFFERS:
        shown += f"; the image before has {about['told']!r}, the stored row has {about['held']!r}"
    column = about["column"]
    return Finding(
        CODES[what], table, None if column is None else str(column), int(str(about["csn"])), str(about["xid"]), shown
    )
