"""Let Great Expectations judge one frame by one declared expectation.

A frame holds one row per thing that is judged, and one column that says how it fares: for orphans whether the parent
exists, for stuck transactions how long each one waits. Reading those frames is the storage room's work.
"""

import logging
import os
from dataclasses import dataclass

import pandas as pd

from txloom.config.models import Expectation, OrphanExpectation, StuckExpectation

PARENT_EXISTS = "parent_exists"
AGE = "age_seconds"
SEVERITIES = {"block": "critical", "warn": "warning", "info": "info"}
"""txloom's severities in Great Expectations' words."""


@dataclass(frozen=True)
class Verdict:
    """What Great Expectations found: how many rows it looked at, how many fail."""

    success: bool
    checked: int
    failed: int


def judge(frame: pd.DataFrame, expectation: Expectation, *, suite: str, run_id: str) -> Verdict:
    """Check a frame; an empty one passes without loading Great Expectations, which costs seconds."""
    if frame.empty:
        return Verdict(success=True, checked=0, failed=0)
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier

    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    batch = (
        context.data_sources.add_pandas(suite)
        .add_dataframe_asset(expectation.id)
        .add_batch_definition_whole_dataframe("all")
    )
    rules = context.suites.add(gx.ExpectationSuite(name=suite))
    rules.add_expectation(_rule(expectation))
    validation = context.validation_definitions.add(
        gx.ValidationDefinition(name=expectation.id, data=batch, suite=rules)
    )
    checkpoint = context.checkpoints.add(gx.Checkpoint(name=suite, validation_definitions=[validation]))
    outcome = checkpoint.run(batch_parameters={"dataframe": frame}, run_id=RunIdentifier(run_name=run_id))
    (result,) = next(iter(outcome.run_results.values())).results
    if result.exception_info.get("raised_exception"):
        raise RuntimeError(f"{expectation.id}: {result.exception_info['exception_message']}")
    found = result.result
    return Verdict(bool(result.success), int(found["element_count"]), int(found["unexpected_count"]))


def _rule(expectation: Expectation) -> object:
    from great_expectations import expectations as rules

    about = {"id": expectation.id, "sentence": expectation.sentence, "hint": expectation.hint}
    severity = SEVERITIES[expectation.severity]
    if isinstance(expectation, OrphanExpectation):
        return rules.ExpectColumnValuesToBeInSet(column=PARENT_EXISTS, value_set=[True], meta=about, severity=severity)
    assert isinstance(expectation, StuckExpectation)
    longest = int(expectation.older_than.total_seconds())
    return rules.ExpectColumnValuesToBeBetween(column=AGE, max_value=longest, meta=about, severity=severity)
