"""Let Great Expectations judge by one declared expectation what the storage room found.

Evidence of txloom's own kinds holds one row for each thing that may be wrong; where there is none, the expectation
holds, and Great Expectations, which takes seconds to load, is left alone (ADR 20).
"""

import logging
import os
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from txloom.config.expectations import Expectation, GreatExpectation
from txloom.errors import ConfigurationError
from txloom.quality.masking import MOST, is_secret, without


@dataclass(frozen=True)
class Evidence:
    """What was found on pinned versions of tables.

    checked: how many rows were looked at. judged: the columns that Great Expectations judges, a row for each thing in
    question. sample: the first of the rows that fail. detail: what people should know beside the rows.
    """

    checked: int
    judged: pa.Table = field(default_factory=lambda: pa.table({}))
    sample: list[dict[str, Any]] = field(default_factory=list)
    detail: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What came of it: how many rows were looked at, how many fail, and the first of those."""

    success: bool
    checked: int
    failed: int
    sample: list[dict[str, Any]] = field(default_factory=list)
    detail: str | None = None


def judge(
    evidence: Evidence, expectation: Expectation, *, suite: str, run_id: str, referenced: Collection[str] = ()
) -> Verdict:
    """Judge evidence; raises ConfigurationError where Great Expectations cannot do what was declared.

    referenced: texts that no message may repeat.
    """
    own = not isinstance(expectation, GreatExpectation)
    if own and not evidence.judged.num_rows:
        return Verdict(success=True, checked=evidence.checked, failed=0, detail=evidence.detail)
    with warnings.catch_warnings():
        # Great Expectations imports modules that Python deprecates, which is not for the person who reads the log
        warnings.simplefilter("ignore")
        found = _result(evidence.judged, expectation, suite=suite, run_id=run_id, referenced=referenced)
    told = found.result
    if own:
        failed = told.get("unexpected_count", evidence.judged.num_rows)
        if found.success:
            return Verdict(success=True, checked=evidence.checked, failed=0, detail=evidence.detail)
        return Verdict(False, evidence.checked, int(failed), evidence.sample, evidence.detail)
    return _of_table(evidence, expectation, success=bool(found.success), told=told)


def _of_table(evidence: Evidence, expectation: Expectation, *, success: bool, told: dict[str, Any]) -> Verdict:
    """Return the verdict on a table: rows that fail, or the number that does."""
    if "unexpected_count" in told:
        first = [int(number) for number in told.get("unexpected_index_list") or ()][:MOST]
        sample = [] if success else evidence.judged.take(first).to_pylist()
        return Verdict(success, evidence.checked, int(told["unexpected_count"]), sample)
    if success:
        return Verdict(success, evidence.checked, 0)
    named = _columns(expectation)
    observed = "***" if any(map(is_secret, named)) else told.get("observed_value")
    about = {"column": ", ".join(named)} if named else {}
    return Verdict(success, evidence.checked, 1, [{**about, "observed": observed}], f"observed {observed}")


def _columns(expectation: Expectation) -> list[str]:
    """Return the columns that an expectation of Great Expectations names."""
    given = getattr(expectation, "arguments", {})
    named = [given.get(name) for name in ("column", "column_A", "column_B")]
    listed = [name for key in ("column_list", "column_set") for name in given.get(key) or ()]
    return [str(name) for name in (*named, *listed) if name is not None]


def _result(judged: pa.Table, expectation: Expectation, *, suite: str, run_id: str, referenced: Collection[str]) -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier

    logging.getLogger("great_expectations").setLevel(logging.CRITICAL)
    from txloom.quality.rules import is_aggregate

    rule = _rule(expectation, referenced)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    batch = (
        context.data_sources.add_pandas(suite)
        .add_dataframe_asset(expectation.id)
        .add_batch_definition_whole_dataframe("all")
    )
    rules = context.suites.add(gx.ExpectationSuite(name=suite))
    rules.add_expectation(rule)
    validation = context.validation_definitions.add(
        gx.ValidationDefinition(name=expectation.id, data=batch, suite=rules)
    )
    checkpoint = context.checkpoints.add(
        gx.Checkpoint(name=suite, validation_definitions=[validation], result_format={"result_format": "COMPLETE"})
    )
    frame = _floats(judged).to_pandas() if is_aggregate(rule) else _exact(judged)
    outcome = checkpoint.run(batch_parameters={"dataframe": frame}, run_id=RunIdentifier(run_name=run_id))
    (result,) = next(iter(outcome.run_results.values())).results
    if trouble := _trouble(result.exception_info):
        shown = "its message is not shown" if any(map(is_secret, _columns(expectation))) else trouble
        raise _refused(expectation, without(shown, referenced))
    return result


def _rule(expectation: Expectation, referenced: Collection[str]) -> Any:
    from pydantic.v1 import ValidationError

    from txloom.quality.rules import rule

    try:
        return rule(expectation)
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise _refused(expectation, without(told, referenced)) from None


def _refused(expectation: Expectation, why: str) -> ConfigurationError:
    name = getattr(expectation, "expectation", expectation.kind)
    return ConfigurationError(f"expectation {expectation.id}: {name} cannot judge this table: {why}")


def _trouble(told: dict[str, Any]) -> str:
    """Return why a number could not be worked out: told once, or for each number that was asked for."""
    entries = [told] if "raised_exception" in told else list(told.values())
    said = [str(each.get("exception_message")) for each in entries if each.get("raised_exception")]
    return said[0].strip().splitlines()[-1][:200] if said else ""


def _exact(judged: pa.Table) -> Any:
    """Return a frame whose longs stay longs and whose decimals stay decimals, nulls or not."""
    return judged.to_pandas(integer_object_nulls=True)


def _floats(judged: pa.Table) -> pa.Table:
    fields = [
        pa.field(each.name, pa.float64() if pa.types.is_decimal(each.type) else each.type) for each in judged.schema
    ]
    return judged.cast(pa.schema(fields))
