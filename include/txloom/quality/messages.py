"""Messages to people: about an incident (what, since when, which rows, what to do, a link), and before an approval."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from txloom.quality.incident_lifecycle import OPENED, Due
from txloom.quality.incidents import moment


@dataclass(frozen=True)
class Message:
    """One message; id: the same each time that this message is sent."""

    id: str
    subject: str
    text: str
    fields: dict[str, Any]


def message(pipeline: str, due: Due, base_url: str) -> Message:
    """Return the message about the opening or closing of an incident.

    base_url: where people reach Airflow; empty: the message has no link.
    """
    lifecycle, incident = due.lifecycle, due.lifecycle.incident
    name = incident.kind + (f" ({incident.subject})" if incident.subject else "")
    subject = f"[txloom] {pipeline}: {name}" + ("" if due.event == OPENED else " is over")
    at = lifecycle.opened_at if due.event == OPENED else lifecycle.closed_at or lifecycle.opened_at
    since = incident.since or lifecycle.opened_at
    link = f"{base_url.rstrip('/')}/{incident.page}" if base_url and incident.page else ""
    fields = {
        "id": f"{pipeline}/{incident.kind}/{incident.subject}/{lifecycle.opened_at.isoformat()}/{due.event}",
        "pipeline": pipeline,
        "event": due.event,
        "at": at.isoformat(),
        "kind": incident.kind,
        "subject": incident.subject,
        "severity": incident.severity,
        "since": since.isoformat(),
        "what": incident.what,
        "total": incident.total,
        "rows": list(incident.rows),
        "todo": incident.todo,
        "link": link,
    }
    over = [] if due.event == OPENED else [f"Over: {moment(at)}"]
    lines = [subject, f"What: {incident.what}", f"Since: {moment(since)}", *over]
    if due.event == OPENED:
        lines += [*_rows(incident.total, incident.rows), f"Do: {incident.todo}"]
    lines += [f"Link: {link}"] if link else []
    return Message(str(fields["id"]), subject, "\n".join(lines), fields)


def _rows(total: int, rows: tuple[str, ...]) -> list[str]:
    if not rows:
        return []
    head = f"Rows: {total}" + (f", the first {len(rows)}:" if total > len(rows) else ":")
    return [head, *(f"- {row}" for row in rows)]


def if_approved(sentences: Sequence[str]) -> list[str]:
    """Return the lines in Markdown that say what happens after an approval, and after a refusal."""
    lines = ["**If you approve:**", "", *(f"- {each}" for each in sentences)]
    return ["", *lines, "", "If you refuse, nothing is done and nothing is lost.", ""]
