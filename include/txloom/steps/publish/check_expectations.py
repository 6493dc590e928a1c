"""check_expectations: judge the versions that publish would publish, store the results, and fail where one blocks."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from txloom.config import names
from txloom.config.load import where
from txloom.config.models.expectations import Expectation
from txloom.config.models.pipeline import Pipeline
from txloom.errors import BETWEEN_EXPECTATIONS, ConfigurationError, ExpectationFailed
from txloom.quality import reports
from txloom.steps.publish.judge import judge_expectations
from txloom.steps.step import Counts, Step
from txloom.storage.checks import data_checks, results
from txloom.storage.checks.judged_state import Newest
from txloom.storage.delta.table_metadata import unchanged
from txloom.storage.paths import TablePaths

LOG = logging.getLogger(__name__)


def check_expectations(step: Step, only: Sequence[str] = ()) -> Counts:
    """Check declared expectations, append their results to expectation_results, and write the run's report.

    A repeated run does not count a result twice.

    Args:
        step: the pipeline, its tables and the run.
        only: ids of expectations; empty: all.

    Returns:
        checked, failed: how many expectations. rows: how many rows failed. unjudged: how many were not judged, because
        a table is not complete; left out if there are none.

    Raises:
        ExpectationFailed: after everything is written, if one with severity `block` failed; the message names the rows
            and the versions of the tables.
        ConfigurationError: for an unknown id.
    """
    pipeline, paths, run_id = step.pipeline, step.paths, step.run_id
    known, rows = results.of_run(paths, run_id), []
    for expectation in _chosen(pipeline, only):
        rows.append(_checked(pipeline, paths, expectation, run_id, known))
        known |= {expectation.id: rows[-1]}
    report(pipeline, paths, run_id, known)
    failed = [result for result in rows if result["success"] is False]
    log_results(rows)
    refuse(failed)
    return {**counts_of(rows, "checked"), "rows": sum(result["failed"] for result in failed)}


def unplanned(pipeline: Pipeline, file: Path) -> list[str]:
    """Return the errors in the SQL of a pipeline's expectations, each with file and line; no table has to exist.

    Args:
        pipeline: the declaration.
        file: its file.
    """
    errors = []
    for expectation in pipeline.expectations:
        try:
            data_checks.plan(pipeline, expectation)
        except ConfigurationError as error:
            line, path = where(file, expectation.id, "sql" if expectation.kind == "invariant" else "where")
            errors.append(f"{file}:{line}: {path}: {error}")
    return errors


def hold(pipeline: Pipeline, paths: TablePaths, run_id: str) -> None:
    """Raise ExpectationFailed unless every expectation that blocks passes on the tables as they are.

    Results of this run on the same versions are used again.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        run_id: the run.
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
        failed += [result] if result["success"] is False else []
        log_results([result] if result["success"] is None else [])
    if new:
        report(pipeline, paths, run_id, known)
    refuse(failed)


def log_results(rows: Iterable[Mapping[str, Any]]) -> None:
    """Log each result that failed or was not judged in one line."""
    for result in rows:
        if not result["success"]:
            LOG.info(f"{result['severity']}: {shown(result)}")


def counts_of(rows: Sequence[Mapping[str, Any]], judged: str) -> dict[str, int]:
    """Return how many results were judged, failed and were not judged.

    Args:
        rows: the results.
        judged: the name of the count of those that were judged.
    """
    unjudged = sum(result["success"] is None for result in rows)
    failed = sum(result["success"] is False for result in rows)
    return {judged: len(rows) - unjudged, "failed": failed, **({"unjudged": unjudged} if unjudged else {})}


def refuse(failed: Sequence[dict[str, Any]]) -> None:
    """Raise ExpectationFailed if a failed result (a row of expectation_results) has severity `block`."""
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
    """Check one expectation, store its result and return it.

    known: the results of the run so far, by id.
    """
    state, always = Newest(pipeline, paths), pipeline.judge == "always"
    outcome = judge_expectations(pipeline, state, [expectation], run_id, always=always)
    outcome.refuse_unjudged()
    return results.entered(paths, outcome.rows[expectation.id], known.get(expectation.id))


def report(pipeline: Pipeline, paths: TablePaths, run_id: str, known: Mapping[str, dict[str, Any]]) -> None:
    """Write the report of a run's results so far; a repeated call replaces it.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        run_id: the run.
        known: the results of the run so far, by id.
    """
    about = reports.Report(pipeline.name, run_id, pipeline.expectations, known)
    pages = {"report.html": reports.html(about), "report.md": reports.markdown(about)}
    results.write_report(paths, run_id, pages)


def shown(result: Mapping[str, Any]) -> str:
    """Return one line about a result that did not pass.

    Of a failed one: the expectation, how many rows, the first of them, versions and hint. Else why it was not judged.
    """
    if result["success"] is None:
        return f"{result['expectation']}: {result['detail']}"
    sample = json.loads(result["sample"])
    first = [{name: value for name, value in row.items() if not name.startswith(names.SYSTEM_PREFIX)} for row in sample]
    shown = [reports.in_words(row) for row in first[:3]]
    rows = "; ".join(", ".join(f"{name}={value}" for name, value in row.items() if value != "") for row in shown)
    more = "" if result["failed"] <= len(shown) else ", ..."
    what = reports.what(result) + (f" ({rows}{more})" if rows else "")
    return f"{result['expectation']}: {what} in {reports.versions(result)}. {result['hint']}"
