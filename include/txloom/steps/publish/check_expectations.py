"""check_expectations: judge what publish would publish, keep the results, and hold publish back where one blocks."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from txloom.config import names
from txloom.config.load import where
from txloom.config.models.expectations import Expectation
from txloom.config.models.pipeline import Pipeline
from txloom.errors import BETWEEN_EXPECTATIONS, ConfigurationError, ExpectationFailed
from txloom.quality import reports
from txloom.steps.publish.judge import judged
from txloom.steps.step import Counts, Step
from txloom.storage.checks import data_checks, results
from txloom.storage.checks.judged_state import Newest
from txloom.storage.delta.commit_metadata import unchanged
from txloom.storage.paths import TablePaths

LOG = logging.getLogger(__name__)


def check_expectations(step: Step, only: Sequence[str] = ()) -> Counts:
    """Check declared expectations, all or only those named; each leaves a row in expectation_results.

    Then the run's report is written. Raises ExpectationFailed after all that is safe when one with severity `block`
    failed; it names the rows and the versions of the tables.
    """
    pipeline, paths, run_id = step.pipeline, step.paths, step.run_id
    known, rows = results.of_run(paths, run_id), []
    for expectation in _chosen(pipeline, only):
        rows.append(_checked(pipeline, paths, expectation, run_id, known))
        known |= {expectation.id: rows[-1]}
    report(pipeline, paths, run_id, known)
    failed = [result for result in rows if not result["success"]]
    for result in failed:
        LOG.info(f"{result['severity']}: {shown(result)}")
    refuse(failed)
    return {"checked": len(rows), "failed": len(failed), "rows": sum(result["failed"] for result in failed)}


def unplanned(pipeline: Pipeline, file: Path) -> list[str]:
    """Return what is wrong with the SQL of a file's expectations, at its line; no table has to exist."""
    errors = []
    for expectation in pipeline.expectations:
        try:
            data_checks.plan(pipeline, expectation)
        except ConfigurationError as error:
            line, path = where(file, expectation.id, "sql" if expectation.kind == "invariant" else "where")
            errors.append(f"{file}:{line}: {path}: {error}")
    return errors


def hold(pipeline: Pipeline, paths: TablePaths, run_id: str) -> None:
    """Raise ExpectationFailed unless every expectation that blocks passed on the tables as they are.

    What this run checked already, on these very versions, is not checked again.
    """
    known, failed, new = results.of_run(paths, run_id), [], False
    state = Newest(pipeline, paths)
    for expectation in pipeline.expectations:
        if expectation.severity != "block":
            continue
        result = known.get(expectation.id)
        at = state.versions(data_checks.tables_of(pipeline, expectation))
        if result is None or not unchanged(paths, result["versions"], at):
            result, new = _checked(pipeline, paths, expectation, run_id, known), True
            known |= {expectation.id: result}
        failed += [result] if not result["success"] else []
    if new:
        report(pipeline, paths, run_id, known)
    refuse(failed)


def refuse(failed: Sequence[dict[str, Any]]) -> None:
    """Raise ExpectationFailed where some of what failed blocks."""
    if blocking := [shown(result) for result in failed if result["severity"] == "block"]:
        raise ExpectationFailed(BETWEEN_EXPECTATIONS.join(blocking))


def _chosen(pipeline: Pipeline, only: Sequence[str]) -> list[Expectation]:
    declared = {expectation.id: expectation for expectation in pipeline.expectations}
    unknown = [name for name in only if name not in declared]
    if unknown:
        raise ConfigurationError(f"no expectation is called {unknown[0]!r}; declared are: {', '.join(declared)}")
    return [declared[name] for name in only] if only else list(declared.values())


def _checked(
    pipeline: Pipeline, paths: TablePaths, expectation: Expectation, run_id: str, known: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Check one expectation and write down what came of it; known: what the run has found so far."""
    outcome = judged(pipeline, Newest(pipeline, paths), [expectation], run_id, always=pipeline.judge == "always")
    outcome.refuse_unjudged()
    return results.entered(paths, outcome.rows[expectation.id], known.get(expectation.id))


def report(pipeline: Pipeline, paths: TablePaths, run_id: str, known: Mapping[str, dict[str, Any]]) -> None:
    """Write the report of all that a run has checked so far."""
    about = reports.Report(pipeline.name, run_id, pipeline.expectations, known)
    pages = {"report.html": reports.html(about), "report.md": reports.markdown(about)}
    results.write_report(paths, run_id, pages)


def shown(result: dict[str, Any]) -> str:
    """Say what failed in one line: the expectation, how many rows, the first of them, where, and what to do."""
    sample = json.loads(result["sample"])
    first = [{name: value for name, value in row.items() if not name.startswith(names.SYSTEM_PREFIX)} for row in sample]
    shown = [reports.in_words(row) for row in first[:3]]
    rows = "; ".join(", ".join(f"{name}={value}" for name, value in row.items() if value != "") for row in shown)
    more = "" if result["failed"] <= len(shown) else ", ..."
    what = reports.what(result) + (f" ({rows}{more})" if rows else "")
    return f"{result['expectation']}: {what} in {reports.versions(result)}. {result['hint']}"
