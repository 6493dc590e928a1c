"""A snapshot request that makes no progress is a finding, until it goes on or somebody gives it up.

The signal may be lost, because no task ran when it was sent; the connector's task may have failed while it read; or
what it read cannot be merged. In each case nothing else says so: the request stays open for ever.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.quality.incidents import moment
from txloom.steps.step import Step
from txloom.storage.checks import findings
from txloom.storage.declarations import records
from txloom.storage.landing import requested_snapshots
from txloom.storage.landing.requested_snapshots import READ, Request

WAITS_FOR = {READ: "the connector has read its tables, and its rows are not merged"}


def note_silent(step: Step, last_words: Mapping[str, datetime]) -> None:
    """Record open requests that made no progress within `source.signals.answer_within`; close the finding of others.

    last_words: when the connector last said something of a request, by its id. A repeated call changes nothing more.
    """
    signals, paths = step.pipeline.source.signals, step.paths
    under_way = requested_snapshots.open_requests(paths)
    now = datetime.now(UTC)
    silent = [
        (each, since)
        for each in under_way
        if signals is not None
        and now - (since := max(each.at, last_words.get(each.request, each.at))) >= signals.answer_within
    ]
    now_called = records.present_names(step.pipeline, records.read(paths)) if silent else {}
    observed = [_finding(each, since, now_called, is_known=each.request in last_words) for each, since in silent]
    still = {each.table for each in observed}
    over = [row for row in findings.open_findings(paths) if row["code"] == f.UNANSWERED and row["table"] not in still]
    findings.close(paths, over, step.run_id, "the request goes on, or has ended")
    findings.record(paths, observed, step.run_id)


def _finding(request: Request, since: datetime, now_called: Mapping[str, str], *, is_known: bool) -> Finding:
    """Return the finding of a request; now_called: the present names of tables, by the names in the request."""
    tables = ", ".join(request.tables)
    said = (
        "the connector has said nothing of it" if since <= request.at or not is_known else "the connector fell silent"
    )
    waits = WAITS_FOR.get(request.status, said) + (f" ({request.detail})" if request.detail else "")
    evidence = f"the request {request.request} of {tables} is {request.status} since {moment(since)}: {waits}"
    table = now_called.get(request.tables[0]) if len(request.tables) == 1 else None
    return Finding(f.UNANSWERED, table, None, request.since_csn, None, evidence)
