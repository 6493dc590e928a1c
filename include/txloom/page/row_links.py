"""Which page shows the rows of an incident or a finding, so that they are one click away; or why there are none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.quality import findings as f
from txloom.quality import incidents as kinds

TRANSACTION, AUDIT, CUTS = "transaction", "audit", "cuts"
ROWS_OF_FINDINGS: Mapping[str, str] = dict.fromkeys(f.HINTS, TRANSACTION) | {f.DIFFERS: AUDIT, f.LOST: CUTS}
"""The page that shows the rows of a finding, by its code."""
NO_ROWS: Mapping[str, str] = {
    f.UNREADABLE: "No row of it was read: the file is named above.",
    f.UNANSWERED: "It concerns whole tables: the request names them.",
    f.NOT_EXTRACTED: "It concerns the column in every row of the extract.",
    f.TABLE_NOT_EXTRACTED: "It concerns the whole table, which is named above.",
    kinds.BROKEN: "It concerns the pipeline: no row is wrong.",
    kinds.QUIET: "It concerns the source: no row came.",
    kinds.GONE: "It concerns whole tables, which are named above.",
    kinds.UNBALANCED: "It concerns numbers of events: the ledger's row says which.",
    kinds.TASK: "It concerns a task: what it says names what it is about.",
}
"""Why there are no rows to show, by code of a finding or kind of an incident."""
TEXTS = {
    TRANSACTION: "The rows of transaction {}",
    AUDIT: "Each row that differs",
    CUTS: "What the cuts lack",
    "waiting": "Each transaction, with what it waits for",
    "letters": "Each dead letter",
    "expectations": "Rows that fail",
}
ROWS_OF_INCIDENTS = {kinds.OLD: "waiting", kinds.STUCK: "waiting", kinds.DEAD: "letters"}
ROWS_OF_INCIDENTS |= {kinds.EXPECTATION: "expectations"}


@dataclass(frozen=True)
class RowLink:
    """The page with the rows: its part, its parameters, and what the link says."""

    text: str
    part: str
    query: Mapping[str, Any]


def of_finding(row: Mapping[str, Any]) -> RowLink | str:
    """Return the page that shows the rows of a finding (a row of `findings`), or the reason why there are none."""
    if (why := NO_ROWS.get(row["code"])) is not None:
        return why
    part = ROWS_OF_FINDINGS.get(row["code"], TRANSACTION)
    if part != TRANSACTION:
        return RowLink(TEXTS[part], part, {})
    if row["xid"]:
        return RowLink(TEXTS[part].format(str(row["xid"])[:80]), part, {"xid": row["xid"]})
    if row["since_csn"] is not None:
        return RowLink(TEXTS[part].format(f"at csn {row['since_csn']}"), part, {"csn": row["since_csn"]})
    return "It names no transaction: what shows it stands above."


def of_incident(kind: str, subject: str, findings: Sequence[Mapping[str, Any]]) -> RowLink | str:
    """Return the page that shows the rows of an incident, or the reason why there are none.

    findings: the open ones, of which an incident may be the first.
    """
    if kind == kinds.FINDING:
        same = [each for each in findings if kinds.subject_of(each) == subject]
        return of_finding(same[0]) if same else "The finding is closed."
    if (part := ROWS_OF_INCIDENTS.get(kind)) is not None:
        return RowLink(TEXTS[part], part, {})
    return NO_ROWS.get(kind, "It names no rows.")


def keyed_tables(pipeline: Pipeline) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return by id of an expectation the table of the rows that fail it, and its key; only where a row has a story."""
    keys = {table.name: tuple(table.key) for table in pipeline.tables if not table.insert_only}
    of = {each.id: getattr(each, "child", None) or getattr(each, "table", None) for each in pipeline.expectations}
    return {name: (table, keys[table]) for name, table in of.items() if table in keys}
