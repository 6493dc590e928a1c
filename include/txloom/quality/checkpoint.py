"""Run one Checkpoint of Great Expectations over the expectations of a pipeline, each on the rows that it judges."""

import logging
import os
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from txloom.config.models.expectations import Expectation
from txloom.config.secret_names import is_secret
from txloom.errors import ConfigurationError, TxloomError
from txloom.quality.conditions import Condition
from txloom.quality.masking import MOST, without

Ask = Callable[[str], pa.Table]
"""Runs an SQL query and returns its rows; every call reads the same versions of the tables."""


@dataclass(frozen=True)
class Case:
    """An expectation, and what it is judged on.

    rows: reads the rows in question. ask: runs a query over the same versions of tables, where the condition is a
    query. condition: what must hold of the rows; None for an expectation of Great Expectations, which holds it in its
    arguments.
    """

    expectation: Expectation
    rows: Callable[[], pa.Table]
    condition: Condition | None = None
    ask: Ask | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of one expectation, as Great Expectations returns it.

    result: its numbers (`unexpected_count` or `observed_value`). trouble: why it could not judge, else empty.
    validation: the whole result, as its Data Docs show it.
    """

    success: bool
    result: dict[str, Any]
    trouble: str
    validation: Any


def run(
    cases: Sequence[Case], *, suite: str, run_id: str, referenced: Collection[str] = ()
) -> dict[str, Outcome | ConfigurationError]:
    """Run expectations in one Checkpoint; return by id the outcome, or the error why Great Expectations refuses it.

    Args:
        cases: the expectations, each with the rows that it judges.
        suite: the name of the Checkpoint and of its data source.
        run_id: the run that the results name.
        referenced: texts that no message may repeat.

    Raises:
        TxloomError: Great Expectations cannot be loaded.
    """
    outcomes: dict[str, Outcome | ConfigurationError] = {}
    with warnings.catch_warnings():
        # Great Expectations imports modules that Python deprecates: no concern of the person who reads the log
        warnings.simplefilter("ignore")
        context, source = _context(suite)
        validations = []
        for case in cases:
            rule = _rule(case, referenced)
            if isinstance(rule, ConfigurationError):
                outcomes[case.expectation.id] = rule
            else:
                validations.append(_validation(context, source, case, rule))
        if validations:
            outcomes |= _outcomes(context, validations, suite, run_id)
    return outcomes


def count(ask: Ask, rows: str) -> int:
    """Return how many rows a query returns."""
    number: int = ask(f"select count(*) as n from (\n{rows}\n)")["n"][0].as_py()
    return number


def columns(expectation: Expectation) -> list[str]:
    """Return the columns that the arguments of an expectation of Great Expectations name."""
    given = getattr(expectation, "arguments", {})
    named = [given.get(name) for name in ("column", "column_A", "column_B")]
    listed = [name for key in ("column_list", "column_set") for name in given.get(key) or ()]
    return [str(name) for name in (*named, *listed) if name is not None]


def refused(expectation: Expectation, why: str) -> ConfigurationError:
    """Return the error for an expectation that Great Expectations cannot judge on this table; why: its message."""
    name = getattr(expectation, "expectation", expectation.kind)
    return ConfigurationError(f"expectation {expectation.id}: {name} cannot judge this table: {why}")


def _context(suite: str) -> tuple[Any, Any]:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    try:
        import great_expectations as gx

        from txloom.quality.pinned import PinnedTablesDatasource
    except Exception as error:
        raise TxloomError(
            f"Great Expectations cannot be loaded ({type(error).__name__}: {error}): install requirements.txt where "
            "tasks run; until then only expectations that SQL finds to hold can be judged, with judge: on_failure"
        ) from error
    logging.getLogger("great_expectations").setLevel(logging.CRITICAL)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    add = getattr(context.data_sources, f"add_{PinnedTablesDatasource.__fields__['type'].default}")
    return context, add(suite)


def _rule(case: Case, referenced: Collection[str]) -> Any:
    from pydantic.v1 import ValidationError

    from txloom.quality.rules import rule

    try:
        return rule(case.expectation, case.condition)
    except ValidationError as error:
        errors_shown = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return refused(case.expectation, without(errors_shown, referenced))


def _validation(context: Any, source: Any, case: Case, rule: Any) -> Any:
    """Return the validation definition of one expectation on the rows that it judges."""
    import great_expectations as gx

    from txloom.quality.rules import is_aggregate

    frame = _floats if is_aggregate(rule) else _exact
    name = case.expectation.id
    tables = source.add_tables(name, lambda: frame(case.rows()), case.ask)
    batch = tables.add_batch_definition_whole_dataframe("all")
    suite = context.suites.add(gx.ExpectationSuite(name=name))
    suite.add_expectation(rule)
    return context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=suite))


def _outcomes(context: Any, validations: Sequence[Any], suite: str, run_id: str) -> dict[str, Outcome]:
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier

    result_format = {"result_format": "SUMMARY", "partial_unexpected_count": MOST}
    checkpoint = context.checkpoints.add(
        gx.Checkpoint(name=suite, validation_definitions=list(validations), result_format=result_format)
    )
    ran = checkpoint.run(run_id=RunIdentifier(run_name=run_id))
    return {each.suite_name: _outcome(each) for each in ran.run_results.values()}


def _outcome(validation: Any) -> Outcome:
    (result,) = validation.results
    return Outcome(bool(result.success), dict(result.result), _trouble(result.exception_info), validation)


def _trouble(exceptions: dict[str, Any]) -> str:
    """Return the last line of the first exception, at most 200 characters; empty where none was raised.

    exceptions: one record, or one for each metric that Great Expectations computed.
    """
    entries = [exceptions] if "raised_exception" in exceptions else list(exceptions.values())
    messages = [str(each.get("exception_message")) for each in entries if each.get("raised_exception")]
    return messages[0].strip().splitlines()[-1][:200] if messages else ""


def shown_trouble(expectation: Expectation, trouble: str, referenced: Collection[str]) -> ConfigurationError:
    """Return the error with the message of Great Expectations; the message is left out where the columns are secret."""
    secret = any(map(is_secret, columns(expectation)))
    return refused(expectation, without("its message is not shown" if secret else trouble, referenced))


def _exact(judged: pa.Table) -> Any:
    """Return a frame whose longs stay longs and whose decimals stay decimals, nulls or not."""
    return judged.to_pandas(integer_object_nulls=True)


def _floats(judged: pa.Table) -> Any:
    fields = [
        pa.field(each.name, pa.float64() if pa.types.is_decimal(each.type) else each.type) for each in judged.schema
    ]
    return judged.cast(pa.schema(fields)).to_pandas()
