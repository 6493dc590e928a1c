"""txloom's own expectations, as classes of Great Expectations; importing them loads it, which costs seconds.

Each judges the rows in question as they lie in the tables, by the condition that SQL goes by too
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
"""txloom's severities in Great Expectations' words."""


class ExpectNoRows(gx.UnexpectedRowsExpectation):
    """A query over tables at pinned versions returns nothing; `txloom.quality.pinned` asks it."""

    @validator("unexpected_rows_query")
    def _validate_query(cls, query: str) -> str:  # noqa: N805 (as pydantic has it)
        """Take a query as it is: it names its tables, and a brace in it is a brace."""
        return query


class ExpectNoOrphans(ExpectNoRows):
    """Every child row that names a parent has it."""


class ExpectInvariant(ExpectNoRows):
    """No row violates a transaction invariant."""


class ExpectNoStuckTransactions(gx.ExpectColumnValuesToBeBetween):
    """No transaction waits for its missing parts for longer than `max_value` seconds."""


class ExpectFewDeadLetters(gx.ExpectTableRowCountToBeBetween):
    """No more than `max_value` dead letters are open."""


class ExpectBalancedLedger(gx.ExpectColumnValuesToBeInSet):
    """Every landed event is accounted for."""


class ExpectNoVersionRegressions(gx.ExpectColumnPairValuesAToBeGreaterThanB):
    """No row has a version below one that it had before."""


class ExpectFreshValidThrough(gx.ExpectColumnValuesToBeBetween):
    """What readers see is no older than `max_value` seconds."""


class ExpectFreshSnapshots(gx.ExpectColumnValuesToBeBetween):
    """The newest landed date began no longer ago than `max_value` seconds."""


class ExpectNoDrift(gx.ExpectColumnValuesToBeInSet):
    """No open finding needs a snapshot."""


class ExpectNoFindings(gx.ExpectColumnValuesToNotBeInSet):
    """No finding of some codes is open."""


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
"""By kind of declared expectation."""


def rule(expectation: Expectation, condition: Condition | None = None) -> Any:
    """Return what Great Expectations judges by; raises pydantic's ValidationError where a class takes other values.

    condition: what must hold, of a kind of txloom's own.
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
    """Tell whether one number of a whole column is judged, which Great Expectations works out in floats."""
    return isinstance(judged_by, ColumnAggregateExpectation)
