"""The report of a run's expectations: a self-contained page, and the same for chat, failed ones first.

Every text that came from a source or a declaration is escaped, put on one line, and cut where it is long.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

from txloom.config.models.expectations import Expectation
from txloom.quality.dead_letters import escaped, plain
from txloom.quality.incidents import moment

SHOWN = 5
"""Rows of a sample that the report for chat shows; the page shows the whole sample."""
_PLACE = {False: 0, None: 1, True: 2}
"""The order of results by `success`; None: not judged."""
_HEADINGS = {False: "Failed", None: "Not judged", True: "Passed"}
ORDER = ("block", "warn", "info")
MEANS = {
    "block": "blocks: nothing is published until it passes",
    "warn": "warns: the run goes on",
    "info": "informs: the run goes on",
}
COLORS = (
    ":root{color-scheme:light dark;--ink:#1d2330;--dim:#56607a;--page:#fff;--card:#f5f6f9;--line:#d5d9e2;--bad:#b3261e;"
    "--warn:#8a5a00;--good:#1a6b3a}"
    "@media (prefers-color-scheme:dark){:root{--ink:#e8eaf0;--dim:#a9b1c4;--page:#14171e;--card:#1d212b;--line:#3a4152;"
    "--bad:#ff8a80;--warn:#ffc46b;--good:#7fd8a0}}"
)
"""Colors of self-contained pages, for light and dark schemes."""
STYLE = COLORS + (
    "body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);margin:2rem auto;max-width:70rem;"
    "padding:0 1rem}h1{font-size:1.4rem}h2{font-size:1.1rem;margin:0}section{background:var(--card);"
    "border-left:.4rem solid var(--line);padding:1rem;margin:1rem 0}section.bad{border-color:var(--bad)}"
    "section.soft{border-color:var(--warn)}section.good{border-color:var(--good)}dl{display:grid;"
    "grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:.6rem 0}dt{color:var(--dim)}dd{margin:0}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}th,td{border:1px solid var(--line);"
    "padding:.2rem .5rem;text-align:left;vertical-align:top;unicode-bidi:isolate}caption{text-align:left;"
    "color:var(--dim)}"
)


@dataclass(frozen=True)
class Report:
    """The results of a run's expectations; results: by id, the newest of each that the run has checked."""

    pipeline: str
    run_id: str
    expectations: tuple[Expectation, ...]
    results: Mapping[str, Mapping[str, Any]]

    @property
    def ordered(self) -> list[Mapping[str, Any]]:
        """Return the results of declared expectations: failed ones first, those that block before others.

        Those that were not judged come before those that passed.
        """
        position = {each.id: number for number, each in enumerate(self.expectations)}
        known = [row for name, row in self.results.items() if name in position]
        return sorted(
            known, key=lambda row: (_PLACE[row["success"]], ORDER.index(row["severity"]), position[row["expectation"]])
        )

    @property
    def unchecked(self) -> list[str]:
        """Return the ids of the expectations that the run has not checked yet."""
        return [each.id for each in self.expectations if each.id not in self.results]

    @property
    def headline(self) -> str:
        """Return one line: how many failed, passed, were not judged, and are not checked yet."""
        failed = [row for row in self.ordered if row["success"] is False]
        passed = f"{sum(row['success'] is True for row in self.ordered)} passed"
        unjudged = sum(row["success"] is None for row in self.ordered)
        more = f", {unjudged} not judged" if unjudged else ""
        more += f", {len(self.unchecked)} not checked yet" if self.unchecked else ""
        if not failed:
            return f"{passed}{more}"
        blocks = sum(row["severity"] == "block" for row in failed)
        held = f" ({blocks} of them hold publish back)" if blocks else " (none holds publish back)"
        return f"{len(failed)} failed{held}, {passed}{more}"


def html(report: Report) -> str:
    """Return the report as a self-contained HTML page."""
    title = f"{report.pipeline}: {report.headline}"
    at = max((row["checked_at"] for row in report.ordered), default=None)
    about = [("Run", report.run_id), ("Checked", _moment(at))]
    parts = [_section(row) for row in report.ordered]
    parts += [f"<p>Not checked yet in this run: {_text(', '.join(report.unchecked))}</p>"] if report.unchecked else []
    if not report.expectations:
        parts.append("<p>The pipeline declares no expectations.</p>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>{_text(title)}</h1>{_list(about)}{''.join(parts)}</main></body></html>\n"
    )


def _section(row: Mapping[str, Any]) -> str:
    failed = row["success"] is False
    kind = ("bad" if row["severity"] == "block" else "soft") if failed else "good" if row["success"] else ""
    head = f"<h2>{_HEADINGS[row['success']]}: {_text(row['expectation'])}</h2><p>{_text(row['sentence'])}</p>"
    return f'<section class="{kind}">{head}{_list(_facts(row))}{_table(row) if failed else ""}</section>'


def _facts(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of a result, in the order in which a person on call needs them: what, since when, what to do."""
    facts = [("What", what(row))]
    if row["success"] is None:
        facts.append(("Last passed", _moment(row.get("last_good")) or "never"))
    elif not row["success"]:
        runs = row.get("streak") or 1
        since = (
            f"{_moment(row.get('first_seen') or row['checked_at'])}, {runs} {'run' if runs == 1 else 'runs'} in a row"
        )
        facts += [("Since", since), ("Last passed", _moment(row.get("last_good")) or "never")]
        facts += [("Severity", MEANS[row["severity"]]), ("Do", row["hint"])]
    return [*facts, ("Looked at", versions(row) or "nothing")]


def what(row: Mapping[str, Any]) -> str:
    """Return how many rows fail, or the detail that says why no rows were judged.

    >>> what({"success": False, "failed": 2, "checked": 3, "detail": None})
    '2 of 3 rows fail'
    """
    if row["success"]:
        return row["detail"] or f"{row['checked']} rows looked at"
    if row["detail"] and not row["failed"]:
        return str(row["detail"])
    summary = f"{row['failed']} of {row['checked']} rows fail"
    return f"{summary}: {row['detail']}" if row["detail"] else summary


def versions(row: Mapping[str, Any]) -> str:
    """Return the versions of the tables that were read, as text.

    >>> versions({"versions": [("orders", 7), ("items", 3)]})
    'items version 3, orders version 7'
    """
    return ", ".join(f"{name} version {number}" for name, number in sorted(dict(row["versions"] or ()).items()))


def rows_of(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the sample of a result as texts, see `in_words`."""
    return [in_words(each) for each in json.loads(row["sample"] or "[]")]


def in_words(row: dict[str, Any]) -> dict[str, str]:
    """Return a row of a sample as texts.

    `_txloom_` prefixes are left out; expected and received counts become one column such as 3/4.
    """
    cells = dict(row)
    expected, received = cells.pop("expected", None), cells.pop("received", None)
    if isinstance(received, dict) or isinstance(expected, dict):
        cells["received of expected"] = missing(expected, received)
    return {name.removeprefix("_txloom_"): _value(value) for name, value in cells.items()}


def missing(expected: dict[str, int] | None, received: dict[str, int] | None) -> str:
    """Return by table how many rows were received of those expected.

    >>> missing({"orders": 1, "items": 4}, {"items": 3}), missing(None, {"items": 3})
    ('items 3/4, orders 0/1', 'items 3')
    """
    has, wants = received or {}, expected or {}
    tables = sorted({*has, *wants})
    return ", ".join(f"{name} {has.get(name, 0)}" + (f"/{wants[name]}" if name in wants else "") for name in tables)


def _value(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(row: Mapping[str, Any]) -> str:
    rows = rows_of(row)
    if not rows:
        return ""
    columns = list(dict.fromkeys(name for each in rows for name in each))
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in columns)
    cells = ("".join(f"<td>{_text(each.get(name, ''))}</td>" for name in columns) for each in rows)
    body = "".join(f"<tr>{each}</tr>" for each in cells)
    many = f"The first {len(rows)} of {row['failed']} rows" if row["failed"] > len(rows) else "All rows that fail"
    return f'<div class="wide"><table><caption>{many}</caption><tr>{head}</tr>{body}</table></div>'


def _list(facts: Sequence[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{_text(text)}</dd>' for name, text in facts)}</dl>"


def _text(text: str) -> str:
    """Return a text as HTML; control and other unprintable characters become question marks."""
    return escape("".join(sign if sign.isprintable() else " " if sign.isspace() else "?" for sign in text))


def _moment(at: datetime | None) -> str:
    return moment(at) if at is not None else ""


def markdown(report: Report) -> str:
    """Return the report for chat, in Markdown: the headline, then each failed expectation with facts and first rows."""
    lines = [f"**{escaped(report.pipeline)}** run {escaped(plain(report.run_id))}: {report.headline}"]
    for row in report.ordered:
        if row["success"]:
            continue
        lines += ["", f"**{escaped(row['expectation'])}** ({row['severity']}): {escaped(plain(row['sentence']))}"]
        lines += [f"- {name}: {escaped(_line(text))}" for name, text in _facts(row) if name not in ("Severity",)]
        rows = rows_of(row)
        lines += [f"- `{number}` {escaped(_pairs(each))}" for number, each in enumerate(rows[:SHOWN], 1)]
        if (more := row["failed"] - min(len(rows), SHOWN)) > 0 and rows:
            lines.append(f"- and {more} more")
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    return " ".join("".join(sign if sign.isprintable() else " " if sign.isspace() else "?" for sign in text).split())


def _pairs(row: dict[str, str]) -> str:
    return _line(", ".join(f"{name}={value}" for name, value in row.items() if value != ""))
