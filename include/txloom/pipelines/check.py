"""check_expectations: judge what publish would publish, keep the results, and hold publish back where one blocks."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from txloom.config import expectations as kinds
from txloom.config import names
from txloom.config.expectations import Expectation
from txloom.config.models import Pipeline
from txloom.config.reading import where
from txloom.errors import BETWEEN_EXPECTATIONS, ConfigurationError, ExpectationFailed
from txloom.quality import reports
from txloom.quality.masking import is_secret, masked
from txloom.quality.verdicts import Evidence, Verdict, judge
from txloom.storage import accounts, checked, evolution, results
from txloom.storage.place import Place
from txloom.storage.progress import gone, unchanged
from txloom.storage.regressions import regressions

ALL = re.compile(r"(?<!count\()\*")
"""A query that takes all columns may give any of them another name."""
GONE = "the newest cut has it; the next merge_current writes it anew out of its history"
NOTHING = "nothing to check yet: the tables do not exist"


def check_expectations(
    _spark: object, pipeline: Pipeline, *, warehouse: str, run_id: str, only: Sequence[str] = ()
) -> dict[str, int]:
    """Check declared expectations, all or only those named; each leaves a row in expectation_results.

    Then the run's report is written. Raises ExpectationFailed after all that is safe when one with severity `block`
    failed; it names the rows and the versions of the tables.
    """
    place = Place(warehouse, pipeline.name)
    known, found = results.of_run(place, run_id), []
    for expectation in _chosen(pipeline, only):
        found.append(_checked(pipeline, place, expectation, run_id, known))
        known |= {expectation.id: found[-1]}
    _report(pipeline, place, run_id, known)
    failed = [result for result in found if not result["success"]]
    for result in failed:
        print(f"{result['severity']}: {told(result)}", flush=True)
    _refuse(failed)
    return {"checked": len(found), "failed": len(failed), "rows": sum(result["failed"] for result in failed)}


def unplanned(pipeline: Pipeline, file: Path) -> list[str]:
    """Return what is wrong with the SQL of a file's expectations, at its line; no table has to exist."""
    found = []
    for expectation in pipeline.expectations:
        try:
            checked.plan(pipeline, expectation)
        except ConfigurationError as error:
            line, path = where(file, expectation.id, "sql" if expectation.kind == "invariant" else "where")
            found.append(f"{file}:{line}: {path}: {error}")
    return found


def hold(pipeline: Pipeline, place: Place, run_id: str) -> None:
    """Raise ExpectationFailed unless every expectation that blocks passed on the tables as they are.

    What this run checked already, on these very versions, is not checked again.
    """
    known, failed, new = results.of_run(place, run_id), [], False
    for expectation in pipeline.expectations:
        if expectation.severity != "block":
            continue
        result = known.get(expectation.id)
        if result is None or not unchanged(place, result["versions"], checked.looked_at(pipeline, place, expectation)):
            result, new = _checked(pipeline, place, expectation, run_id, known), True
            known |= {expectation.id: result}
        failed += [result] if not result["success"] else []
    if new:
        _report(pipeline, place, run_id, known)
    _refuse(failed)


def _refuse(failed: Sequence[dict[str, Any]]) -> None:
    if blocking := [told(result) for result in failed if result["severity"] == "block"]:
        raise ExpectationFailed(BETWEEN_EXPECTATIONS.join(blocking))


def _chosen(pipeline: Pipeline, only: Sequence[str]) -> list[Expectation]:
    declared = {expectation.id: expectation for expectation in pipeline.expectations}
    unknown = [name for name in only if name not in declared]
    if unknown:
        raise ConfigurationError(f"no expectation is called {unknown[0]!r}; declared are: {', '.join(declared)}")
    return [declared[name] for name in only] if only else list(declared.values())


def _checked(
    pipeline: Pipeline, place: Place, expectation: Expectation, run_id: str, known: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Check one expectation and write down what came of it; known: what the run has found so far."""
    at = checked.looked_at(pipeline, place, expectation)
    effective = evolution.effective(pipeline, place)
    referenced = pipeline.referenced
    if missing := gone(place, list(checked.tables_of(pipeline, expectation))):
        verdict = Verdict(False, 0, 0, detail=f"table {', '.join(missing)} is gone: {GONE}")
    else:
        evidence = _evidence(effective, place, expectation, at)
        verdict = judge(evidence, expectation, suite=pipeline.name, run_id=run_id, referenced=referenced)
    rows = masked(verdict.sample, referenced, _hidden(effective, expectation, verdict.sample))
    result = {
        "run_id": run_id,
        "expectation": expectation.id,
        "kind": expectation.kind,
        "severity": expectation.severity,
        "success": verdict.success,
        "checked": verdict.checked,
        "failed": verdict.failed,
        "sample": json.dumps(rows, ensure_ascii=False),
        "sentence": expectation.sentence,
        "hint": expectation.hint,
        "checked_at": datetime.now(UTC),
        "versions": list(at.items()),
        "detail": verdict.detail or (None if at else NOTHING),
    }
    return results.entered(place, result, known.get(expectation.id))


def _evidence(pipeline: Pipeline, place: Place, expectation: Expectation, at: dict[str, int]) -> Evidence:
    now = datetime.now(UTC)
    match expectation:
        case kinds.OrphanExpectation():
            return checked.orphans(pipeline, place, expectation, at)
        case kinds.StuckExpectation():
            return accounts.waiting(place, expectation, at)
        case kinds.DeadLetterExpectation():
            return accounts.letters(place, expectation, at)
        case kinds.LedgerExpectation():
            return accounts.ledger(place, expectation, at)
        case kinds.VersionExpectation():
            return regressions(pipeline, place, expectation, at)
        case kinds.ValidThroughExpectation():
            return accounts.shown(pipeline, place, expectation, at, now)
        case kinds.SnapshotAgeExpectation():
            return accounts.dates(place, expectation, at, now)
        case kinds.DriftExpectation():
            return accounts.drift(place, expectation, at)
        case kinds.GreatExpectation():
            return checked.rows_of(pipeline, place, expectation, at)
        case kinds.InvariantExpectation():
            return checked.violations(pipeline, place, expectation, at)


def _hidden(pipeline: Pipeline, expectation: Expectation, sample: Sequence[dict[str, Any]]) -> set[str]:
    """Return columns of a query whose values may be secret ones under another name."""
    if not isinstance(expectation, kinds.InvariantExpectation) or not sample:
        return set()
    declared = {column.name for table in pipeline.tables for column in table.columns}
    sql = expectation.sql.lower()
    taken = [name for name in declared if is_secret(name) and (name.lower() in sql or ALL.search(sql))]
    return {name for name in sample[0] if name not in declared} if taken else set()


def _report(pipeline: Pipeline, place: Place, run_id: str, known: Mapping[str, dict[str, Any]]) -> None:
    """Write the report of all that a run has checked so far."""
    about = reports.Report(pipeline.name, run_id, pipeline.expectations, known)
    pages = {"report.html": reports.html(about), "report.md": reports.markdown(about)}
    results.write_report(place, run_id, pages)


def told(result: dict[str, Any]) -> str:
    """Say what failed in one line: the expectation, how many rows, the first of them, where, and what to do."""
    sample = json.loads(result["sample"])
    first = [{name: value for name, value in row.items() if not name.startswith(names.OWN_PREFIX)} for row in sample]
    shown = [reports.in_words(row) for row in first[:3]]
    rows = "; ".join(", ".join(f"{name}={value}" for name, value in row.items() if value != "") for row in shown)
    more = "" if result["failed"] <= len(shown) else ", ..."
    what = reports.what(result) + (f" ({rows}{more})" if rows else "")
    return f"{result['expectation']}: {what} in {reports.versions(result)}. {result['hint']}"
