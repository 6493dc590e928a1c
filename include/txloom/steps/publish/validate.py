"""validate: let Great Expectations judge all expectations of a pipeline as one Checkpoint, on the newest cut."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.quality import data_docs
from txloom.steps.publish.check_expectations import counts_of, log_results, refuse, report
from txloom.steps.publish.judge import Results, judge_expectations
from txloom.steps.step import Counts, Step
from txloom.storage.checks import results
from txloom.storage.checks.judged_state import Published, published
from txloom.storage.runs.ledger import Entry, write_ledger

LOG = logging.getLogger(__name__)

AHEAD = "the tables show more than the cut by now: what the cycle says of them stands, and this is written down nowhere"


def validate(step: Step) -> Counts:
    """Judge every declared expectation on the newest cut, and write Data Docs.

    Results are stored like those of check_expectations, unless the tables are newer than the cut: the cycle has judged
    the newer state then.

    Returns:
        validated: how many expectations; failed; rows that failed; cut_id; judged: how many Great Expectations judged;
        unjudged: how many nothing judged, because the cut lacks a table (left out if there are none).

    Raises:
        ExpectationFailed: after everything is written, if one with severity `block` failed.
        TxloomError: if one could not be judged.
    """
    pipeline, paths, run_id = step.pipeline, step.paths, step.run_id
    state = published(pipeline, paths)
    if state is None or not pipeline.expectations:
        return {"validated": 0}
    outcome = judge_expectations(pipeline, state, pipeline.expectations, run_id, always=True)
    rows = _entered(pipeline, state, run_id, outcome.rows)
    failed = [row for row in rows.values() if row["success"] is False]
    counts = counts_of([*rows.values()], "validated") | {"rows": sum(row["failed"] for row in failed)}
    counts |= {"cut_id": state.cut.cut_id, "judged": len(outcome.outcomes)}
    results.write_data_docs(paths, run_id, _pages(pipeline, state, run_id, outcome))
    write_ledger(paths.warehouse, paths.pipeline, Entry(run_id, "validate", datetime.now(UTC), counts))
    log_results(rows.values())
    outcome.refuse_unjudged()
    refuse(failed)
    return {**counts}


def _entered(
    pipeline: Pipeline, state: Published, run_id: str, rows: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Store results as check_expectations does, if they are about the newest state; return them by id."""
    if not state.is_newest:
        LOG.info(f"note: cut {state.cut.cut_id}: {AHEAD}")
        return {name: {**row, "versions": dict(row["versions"])} for name, row in rows.items()}
    known = results.of_run(state.paths, run_id)
    entered = {name: results.entered(state.paths, row, known.get(name)) for name, row in rows.items()}
    report(pipeline, state.paths, run_id, known | entered)
    return entered


def _pages(pipeline: Pipeline, state: Published, run_id: str, outcome: Results) -> dict[str, str]:
    about = {
        "Run": run_id,
        "Judged": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "Cut": f"{state.cut.cut_id}, valid through csn {state.cut.valid_through}",
        "By": f"Great Expectations, {len(outcome.outcomes)} of {len(pipeline.expectations)} in one Checkpoint",
    }
    said: dict[str, Any] = {name: str(error) for name, error in outcome.errors.items()} | dict(outcome.rows)
    shown = [(each, said[each.id]) for each in pipeline.expectations]
    title = f"{pipeline.name}: what Great Expectations says"
    return data_docs.pages(title, about, shown, outcome.outcomes, pipeline.referenced)
