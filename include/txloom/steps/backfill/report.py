"""The report of a backfill for the person who approves it: counts and sample rows as Markdown; needs no Spark."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from txloom.quality.messages import if_approved
from txloom.steps.backfill.compare import CHANGES
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.targets import shadow_tables

COUNTS = (*CHANGES, "surplus")
NOTES = """
missing, different: rows of history. inserts, updates, deletes: rows of current tables. surplus: rows of history
without an event; they are kept, a backfill takes nothing out of history."""


def report(warehouse: str, pipeline: str, run_id: str) -> tuple[int, str]:
    """Return how many rows an apply would change, and the report.

    Args:
        warehouse: where the pipeline's tables are.
        pipeline: its name.
        run_id: a run that was compared.
    """
    rows = shadow_tables.compared(TablePaths(warehouse, pipeline), run_id)
    differing = [row for row in rows if any(dict(row["counts"]).values())]
    changes = sum(dict(row["counts"]).get(name, 0) for row in rows for name in CHANGES)
    if not differing:
        return 0, "Nothing differs."
    first, last = rows[0]["from_csn"], rows[0]["to_csn"]
    head = f"**{changes} rows would change** in {pipeline}, rebuilt from csn {first} to {_last(last)}.\n"
    cut = newest_cut(TablePaths(warehouse, pipeline), "cut_id")
    parts = [
        head,
        *if_approved(_effect(changes, first, None if cut is None else cut["cut_id"])),
        _table(["table", *COUNTS], [_counts(row) for row in differing]),
        NOTES,
    ]
    parts += [_samples(row["table"], json.loads(row["samples"])) for row in differing]
    return changes, "\n".join(parts)


def _effect(changes: int, first: int, cut: int | None) -> list[str]:
    """Return what an approval does; first: the first csn of the range; cut: the newest one."""
    stays = "" if cut is None else f" Cut {cut} shows what readers see now for as long as vacuum keeps its files."
    return [
        f"These {changes} rows are written into the live tables, and no other: the comparison counted them. "
        "Where the tables moved on since and something else differs, nothing is written (exit code 21).",
        "Readers see it with the cut that this run publishes, not before; earlier cuts are amended from csn "
        f"{first} on.",
        "What does not change: rows that are not counted here, changes that came later, surplus rows of history, and "
        "the checkpoint of the stream.",
        f"It cannot be undone by a run.{stays}",
    ]


def _last(csn: int) -> str:
    return "the newest" if csn == shadow_tables.TO_THE_END else str(csn)


def _counts(row: Mapping[str, Any]) -> list[str]:
    counts = dict(row["counts"])
    return [row["table"], *(str(counts.get(name, "")) for name in COUNTS)]


def _samples(table: str, samples: Sequence[Mapping[str, Any]]) -> str:
    lines = [[each["kind"], *(_text(each[side]) for side in ("key", "before", "after"))] for each in samples]
    return f"\n#### {_text(table)}\n\n" + _table(["kind", "key", "before", "after"], lines)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def _text(value: Any) -> str:
    """Return a value as Markdown that shows it literally, in HTML too.

    >>> _text({"a": "<b>|`"})
    '`a` &lt;b&gt;&#124;&#96;'
    """
    if isinstance(value, dict):
        return ", ".join(f"`{_plain(name)}` {_text(member)}" for name, member in value.items())
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return _plain(text)


def _plain(text: str) -> str:
    escaped = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " ", "\r": " "}
    escaped |= {sign: f"&#{ord(sign)};" for sign in "|`*_[]()\\!#~"}
    return "".join(escaped.get(sign, sign) for sign in text)
