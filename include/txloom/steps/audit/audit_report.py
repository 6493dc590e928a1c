"""Write what an audit found to audit_results and the log, and open or close findings."""

import logging
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from txloom.config import names
from txloom.config.contents import table_digests
from txloom.config.secret_names import MASK, is_secret
from txloom.quality import findings as f
from txloom.quality import masking
from txloom.quality.findings import Finding
from txloom.steps.audit.compare_table import CHANGED, EXTRA, MISSING, Difference
from txloom.steps.audit.outcomes import BEHIND, Outcome
from txloom.steps.step import Step
from txloom.storage.checks import findings
from txloom.storage.checks.audited_rows import DIFFERENT, DOCUMENTS, EQUAL, NULL_KEY, REPEATED
from txloom.storage.delta import schema_evolution, small_tables
from txloom.storage.system_tables import AUDIT_RESULTS

LOG = logging.getLogger(__name__)

OPERATIONS = {MISSING: "r", CHANGED: "U", EXTRA: "D"}
"""The change that makes a row equal, by what is wrong with it."""
LISTED = 10_000
"""The most rows of a table that differ and are kept."""
SHOWN = 20
"""The most differences of a table that are printed."""


def write_results(step: Step, outcomes: Mapping[str, Outcome], seconds: float, folder: str | None) -> None:
    """Append a row to audit_results for each table.

    Args:
        step: the call of the step.
        outcomes: by name of a declared table, or of a document table, what is known of it.
        seconds: that the source took for all of it.
        folder: the snapshot folder that stood for the database.
    """
    path, at = step.paths.table(names.AUDIT_RESULTS), datetime.now(UTC)
    declared = table_digests(step.pipeline)
    rows = [
        {
            "run_id": step.run_id,
            "at": at,
            "table": name,
            "verdict": outcome.verdict,
            "rows": outcome.compared.rows,
            "differing": outcome.differing,
            "unsettled": len(outcome.compared.in_flight),
            "source_position": None if outcome.moment is None else outcome.moment.at_most,
            "cut_id": None if outcome.cut is None else outcome.cut.cut_id,
            "valid_through": None if outcome.cut is None else outcome.cut.valid_through,
            "source_seconds": seconds,
            "differences": [row for each in outcome.compared.differences[:LISTED] for row in _rows(each)],
            "repairs": [_repair(each) for each in _repairable(outcome)[:LISTED]],
            "folder": folder,
            "kind": outcome.kind,
            "reason": outcome.reason or None,
            "not_compared": list(outcome.not_compared),
            "declared": declared.get(name) if outcome.kind != DOCUMENTS else None,
        }
        for name, outcome in outcomes.items()
    ]
    schema_evolution.ensure(path, AUDIT_RESULTS)
    small_tables.append(path, rows, AUDIT_RESULTS)


def _repairable(outcome: Outcome) -> list[Difference]:
    if outcome.kind == DOCUMENTS:
        return []
    return [each for each in outcome.compared.differences if each.kind in OPERATIONS]


def _rows(difference: Difference) -> list[dict[str, Any]]:
    base = {"key": list(difference.key.items()), "kind": difference.kind, "csn": difference.csn}
    if not difference.columns:
        return [{**base, "column": None, "lake": None, "source": None}]
    return [{**base, "column": name or None, "lake": a, "source": b} for name, (a, b) in difference.columns.items()]


def _repair(difference: Difference) -> dict[str, Any]:
    """Return what makes a row equal: the operation, the source's row, and as of when."""
    dated = {"csn": difference.as_of, "at": difference.at}
    return {"op": OPERATIONS[difference.kind], "image": difference.image, **dated}


def report(step: Step, table: str, outcome: Outcome) -> dict[str, int]:
    """Print what differs in a table and what was not compared, open or close its finding, and return counts.

    Returns differing, unsettled and behind rows.
    """
    compared, secret = outcome.compared, masking.secret_names(step.pipeline)
    code = f.DOCUMENTS_DIFFER if outcome.kind == DOCUMENTS else f.DIFFERS
    for note in (*((f"{outcome.verdict}: {outcome.reason}",) if outcome.reason else ()), *_notes(outcome)):
        LOG.warning(f"[audit] {table}: {note}")
    for difference in compared.differences[:SHOWN]:
        LOG.info(f"[audit] {table}: {shown(difference, secret)}")
    if outcome.differing > SHOWN:
        LOG.info(f"[audit] {table}: {outcome.differing - SHOWN} more; audit_results lists {LISTED}")
    open_rows = [r for r in findings.open_findings(step.paths) if r["code"] == code and r["table"] == table]
    if outcome.verdict == DIFFERENT:
        assert outcome.cut is not None
        first = compared.differences[0]
        since = min((each.csn for each in compared.differences if each.csn), default=outcome.cut.valid_through)
        what = "documents" if outcome.kind == DOCUMENTS else "rows"
        evidence = (
            f"{outcome.differing} of {compared.rows} {what} differ as of cut {outcome.cut.cut_id}, the first: "
            f"{shown(first, secret)}"
        )
        findings.record(step.paths, [Finding(code, table, None, since, None, evidence)], step.run_id)
    elif outcome.verdict == EQUAL:
        findings.close(step.paths, open_rows, step.run_id, "an audit found every row equal")
    is_behind = outcome.verdict == BEHIND
    return {
        "differing": 0 if is_behind else outcome.differing,
        "unsettled": len(compared.in_flight),
        "behind": outcome.differing if is_behind else 0,
    }


def _notes(outcome: Outcome) -> list[str]:
    return [f"not compared: {note}" for note in outcome.not_compared]


def shown(difference: Difference, secret: Collection[str] = ()) -> str:
    """Return a difference on one line; values of secret columns, and of those that are named like one, are masked.

    >>> shown(Difference({"id": "7"}, "changed", {"note": ("a", None)}, 1002))
    "id=7 since csn 1002: note is 'a' in the lake and null in the source"
    >>> shown(Difference({"id": "8"}, "missing"))
    'id=8 is in the source and not in the lake'
    >>> shown(Difference({"id": "9"}, "changed", {"api_token": ("a", None)}, 7))
    'id=9 since csn 7: api_token is *** in the lake and null in the source'
    >>> shown(Difference({"pin": "0815"}, "missing"))
    'pin=*** is in the source and not in the lake'
    >>> shown(Difference({"a": "1", "b": None}, "null key", {"b": (None, None)}))
    'a=1, b=null is in the source, and the lake cannot hold it: b of its key is null'
    >>> shown(Difference({"id": "1"}, "repeated", {"": ("1 row", "2 rows")}))
    'id=1: the lake has 1 row with this key, the source has 2 rows'
    """
    key = masking.key_text({name: "null" if part is None else part for name, part in difference.key.items()}, secret)
    if difference.kind == MISSING:
        return f"{key} is in the source and not in the lake"
    if difference.kind == EXTRA:
        return f"{key} is in the lake since csn {difference.csn} and not in the source"
    if difference.kind == NULL_KEY:
        return (
            f"{key} is in the source, and the lake cannot hold it: {next(iter(difference.columns))} of its key is null"
        )
    if difference.kind == REPEATED:
        return "{0}: the lake has {1[0]} with this key, the source has {1[1]}".format(key, difference.columns[""])
    hidden = {name for name in difference.columns if name in secret or is_secret(name)}
    values = [
        (name, *(MASK if name in hidden and each is not None else _value(each) for each in both))
        for name, both in difference.columns.items()
    ]
    columns = ", ".join(f"{name} is {a} in the lake and {b} in the source" for name, a, b in values)
    return f"{key} since csn {difference.csn}: {columns}"


def _value(text: str | None) -> str:
    return "null" if text is None else repr(text)
