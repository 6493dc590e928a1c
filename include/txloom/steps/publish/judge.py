"""Judge expectations on a state of a pipeline's tables, for check_expectations and validate."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from txloom.config.models import expectations as kinds
from txloom.config.models.expectations import Expectation
from txloom.config.models.pipeline import Pipeline
from txloom.config.secret_names import is_secret
from txloom.errors import TxloomError
from txloom.quality.checkpoint import Outcome
from txloom.quality.masking import masked
from txloom.quality.verdicts import CheckInput, Verdict, judge
from txloom.storage.checks import data_checks, pipeline_checks
from txloom.storage.checks.judged_state import State
from txloom.storage.checks.version_regressions import regressions
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.publishing.watermark import gone

ALL = re.compile(r"(?<!count\()\*")
"""Matches a query that takes all columns, and may give any of them another name."""
GONE = "the newest cut has it; the next merge_current writes it anew out of its history"
UNJUDGED = "not judged"
NOTHING = "nothing to check yet: the tables do not exist"


@dataclass(frozen=True)
class Results:
    """The results of some expectations, by their ids.

    Args:
        rows: as expectation_results has them, samples masked.
        errors: of those that could not be judged.
        outcomes: what Great Expectations returned for those that it judged.
    """

    rows: Mapping[str, dict[str, Any]]
    errors: Mapping[str, TxloomError]
    outcomes: Mapping[str, Outcome]

    def refuse_unjudged(self) -> None:
        """Raise an error if expectations could not be judged: the first one's class, with the messages of all."""
        for error in self.errors.values():
            raise type(error)(" | ".join(map(str, self.errors.values()))) from error


def judge_expectations(
    pipeline: Pipeline, state: State, expectations: Sequence[Expectation], run_id: str, *, always: bool
) -> Results:
    """Judge expectations; nothing is written.

    An expectation about a table that the newest cut has and that no longer exists fails. An expectation about a table
    that is not complete is not judged: it neither passes nor fails.

    Args:
        pipeline: the declaration.
        state: the versions of the tables.
        expectations: the expectations to judge.
        run_id: the run.
        always: let Great Expectations judge also those that hold by SQL.
    """
    effective = effective_pipeline(pipeline, state.paths)
    read = {each.id: list(data_checks.tables_of(pipeline, each)) for each in expectations}
    at = {name: state.versions(tables) for name, tables in read.items()}
    # A cut is read only for tables without a version: those that have one exist.
    absent = {name: [each for each in tables if each not in at[name]] for name, tables in read.items()}
    missing = {name: gone(state.paths, tables) if tables else [] for name, tables in absent.items()}
    unjudged = {
        each.id: why
        for each in expectations
        if absent[each.id] and (why := _why_unjudged(pipeline, state, each, read[each.id], at[each.id]))
    }
    there = [each for each in expectations if not missing[each.id] and each.id not in unjudged]
    inputs = [(each, _check_input(effective, state, each, at[each.id])) for each in there]
    judgement = judge(inputs, suite=pipeline.name, run_id=run_id, always=always, referenced=pipeline.referenced)
    rows, errors = {}, {}
    for each in expectations:
        verdict = (
            _gone(missing[each.id])
            if missing[each.id]
            else Verdict(None, 0, 0, detail=unjudged[each.id])
            if each.id in unjudged
            else judgement.verdicts[each.id]
        )
        if isinstance(verdict, TxloomError):
            errors[each.id] = verdict
        else:
            rows[each.id] = _row(pipeline, effective, each, verdict, run_id, at[each.id])
    return Results(rows, errors, judgement.outcomes)


def _why_unjudged(
    pipeline: Pipeline, state: State, expectation: Expectation, tables_read: Sequence[str], at: Mapping[str, int]
) -> str:
    """Return why an expectation cannot be judged on the tables that are complete; "": it can.

    The age of valid-through needs only one table. tables_read: all tables that it reads; at: the versions of those that
    have one.

    Raises:
        ConfigurationError: if its SQL is refused.
    """
    if at and isinstance(expectation, kinds.ValidThroughExpectation):
        return ""
    if lacking := state.lacking(tables_read):
        data_checks.plan(pipeline, expectation)
        return f"{UNJUDGED}: {', '.join(lacking)}"
    return ""


def _gone(tables: Sequence[str]) -> Verdict:
    return Verdict(False, 0, 0, detail=f"table {', '.join(tables)} is gone: {GONE}")


def _row(
    pipeline: Pipeline,
    effective: Pipeline,
    expectation: Expectation,
    verdict: Verdict,
    run_id: str,
    at: Mapping[str, int],
) -> dict[str, Any]:
    rows = masked(verdict.sample, pipeline.referenced, _hidden(effective, expectation, verdict.sample))
    return {
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


def _check_input(pipeline: Pipeline, state: State, expectation: Expectation, at: Mapping[str, int]) -> CheckInput:
    now, paths = datetime.now(UTC), state.paths
    match expectation:
        case kinds.OrphanExpectation():
            return data_checks.orphans(pipeline, paths, expectation, at)
        case kinds.StuckExpectation():
            return pipeline_checks.waiting(paths, expectation, at)
        case kinds.DeadLetterExpectation():
            return pipeline_checks.dead_letters(paths, expectation, at)
        case kinds.LedgerExpectation():
            return pipeline_checks.ledger(paths, expectation, at)
        case kinds.VersionExpectation():
            return regressions(pipeline, paths, expectation, at, state.releases)
        case kinds.ValidThroughExpectation():
            return pipeline_checks.shown(paths, expectation, state.valid_through if at else None, now)
        case kinds.SnapshotAgeExpectation():
            return pipeline_checks.dates(paths, expectation, at, now)
        case kinds.DriftExpectation():
            return pipeline_checks.drift(paths, expectation, at)
        case kinds.GreatExpectation():
            return data_checks.rows_of(pipeline, paths, expectation, at)
        case kinds.InvariantExpectation():
            return data_checks.violations(pipeline, paths, expectation, at)


def _hidden(pipeline: Pipeline, expectation: Expectation, sample: Sequence[dict[str, Any]]) -> set[str]:
    """Return the columns of a query whose values may be secret ones under another name."""
    if not isinstance(expectation, kinds.InvariantExpectation) or not sample:
        return set()
    declared = {column.name for table in pipeline.tables for column in table.columns}
    sql = expectation.sql.lower()
    taken = [name for name in declared if is_secret(name) and (name.lower() in sql or ALL.search(sql))]
    return {name for name in sample[0] if name not in declared} if taken else set()
