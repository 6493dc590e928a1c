"""txloom's expectations as classes of Great Expectations; importing this module loads Great Expectations, for seconds.

Each judges the rows in question as they are in the tables, by the condition that SQL uses too
(`txloom.quality.conditions`). It carries the declaration's id and hint in `meta`, its sentence as `description`, and
its severity in Great Expectations' words.
"""

from typing import Any

from great_expectations import expectations as gx
from great_expectations.expectations.expectation import ColumnAggregateExpectation
from pydantic.v1 import validator

from txloom.config.models.expectations import Expectation, GreatExpectation
from txloom.quality.conditions import Condition, InSet

SEVERITIES = {"block": "critical", "warn": "warning", "info": "info"}
"""txloom's severities to those of Great Expectations."""


class ExpectNoRows(gx.UnexpectedRowsExpectation):
    """A query over tables at pinned versions returns nothing; `txloom.quality.pinned` runs it."""

    @validator("unexpected_rows_query")
    def _validate_query(cls, query: str) -> str:  # noqa: N805 (as pydantic has it)
        """Return a query unchanged: it names its tables, and braces in it are no placeholders."""
        return query


class ExpectNoOrphans(ExpectNoRows):
    """Every child row that names a parent has that parent."""


class ExpectInvariant(ExpectNoRows):
    """No row violates a transaction invariant."""


class ExpectNoStuckTransactions(gx.ExpectColumnValuesToBeBetween):
    """No transaction waits for its missing parts for longer than `max_value` seconds."""


class ExpectFewDeadLetters(gx.ExpectTableRowCountToBeBetween):
    """No more than `max_value` dead letters are open."""


class ExpectBalancedLedger(gx.ExpectColumnValuesToBeInSet):
    """The ledger's newest balance comes out even: every landed event is accounted for."""


class ExpectNoVersionRegressions(gx.ExpectColumnPairValuesAToBeGreaterThanB):
    """No row has a version below one that it had before."""


class ExpectFreshValidThrough(gx.ExpectColumnValuesToBeBetween):
    """The newest commit that readers see is at most `max_value` seconds old."""


class ExpectFreshSnapshots(gx.ExpectColumnValuesToBeBetween):
    """The newest date whose extracts were released began at most `max_value` seconds ago."""


class ExpectNoDrift(gx.ExpectColumnValuesToBeInSet):
    """No open finding needs a snapshot."""


class ExpectNoFindings(gx.ExpectColumnValuesToNotBeInSet):
    """No finding with one of the declared codes is open."""


PIPELINE_RULES: dict[str, Any] = {
    "orphans": ExpectNoOrphans,
    "stuck_transactions": ExpectNoStuckTransactions,
    "dead_letters": ExpectFewDeadLetters,
    "unbalanced_ledger": ExpectBalancedLedger,
    "version_regressions": ExpectNoVersionRegressions,
    "valid_through_age": ExpectFreshValidThrough,
    "snapshot_age": ExpectFreshSnapshots,
    "drift": ExpectNoDrift,
    "invariant": ExpectInvariant,
}
"""The class for each kind of declared expectation."""


def rule(expectation: Expectation, condition: Condition | None = None) -> Any:
    """Return the expectation of Great Expectations that judges a declared one.

    Args:
        expectation: the declaration.
        condition: what must hold; needed for txloom's kinds, not for an expectation of Great Expectations.

    Raises:
        ValidationError: pydantic's; the class of Great Expectations does not take the declared arguments.
        TypeError: one of txloom's kinds comes without a condition.
    """
    options: dict[str, Any] = {
        "meta": {"txloom_id": expectation.id, "hint": expectation.hint},
        "description": expectation.sentence,
        "severity": SEVERITIES[expectation.severity],
    }
    if isinstance(expectation, GreatExpectation):
        return getattr(gx, expectation.expectation)(**expectation.arguments, **options)
    if condition is None:
        raise TypeError(f"expectation {expectation.id} of kind {expectation.kind} has no condition")
    outside = isinstance(condition, InSet) and condition.outside
    kind = ExpectNoFindings if outside else PIPELINE_RULES[expectation.kind]
    return kind(**condition.arguments, **options)


def is_aggregate(judged_by: Any) -> bool:
    """Return whether an expectation judges one number of a whole column: Great Expectations computes it in floats."""
    return isinstance(judged_by, ColumnAggregateExpectation)
