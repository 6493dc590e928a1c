"""txloom's own expectations, as classes of Great Expectations; importing them loads it, which costs seconds.

Each judges a frame with one row for each thing in question. It carries the declaration's id and hint in `meta`, its
sentence as `description`, and its severity in Great Expectations' words.
"""

from typing import Any

from great_expectations import expectations as gx
from great_expectations.expectations.expectation import ColumnAggregateExpectation
from pydantic.v1 import Field

from txloom.config.expectations import Expectation, GreatExpectation

SEVERITIES = {"block": "critical", "warn": "warning", "info": "info"}
"""txloom's severities in Great Expectations' words."""


class ExpectNoOrphans(gx.ExpectColumnValuesToBeInSet):
    """Every child row that names a parent has it."""

    column: str = "parent_exists"
    value_set: list[Any] = Field([True])


class ExpectNoStuckTransactions(gx.ExpectColumnValuesToBeBetween):
    """No transaction waits for its missing parts for longer than `max_value` seconds."""

    column: str = "age_seconds"


class ExpectFewDeadLetters(gx.ExpectTableRowCountToBeBetween):
    """No more than `max_value` dead letters are open."""


class ExpectBalancedLedger(gx.ExpectColumnValuesToBeInSet):
    """Every landed event is accounted for."""

    column: str = "balanced"
    value_set: list[Any] = Field([True])


class ExpectNoVersionRegressions(gx.ExpectColumnPairValuesAToBeGreaterThanB):
    """No row has a version below one that it had before."""

    column_A: str = "version"  # noqa: N815 (its name in Great Expectations)
    column_B: str = "highest"  # noqa: N815
    or_equal: bool = True


class ExpectFreshValidThrough(gx.ExpectColumnValuesToBeBetween):
    """What readers see is no older than `max_value` seconds."""

    column: str = "age_seconds"


class ExpectFreshSnapshots(gx.ExpectColumnValuesToBeBetween):
    """The newest landed date began no longer ago than `max_value` seconds."""

    column: str = "age_seconds"


class ExpectNoDrift(gx.ExpectTableRowCountToEqual):
    """No finding of some kinds is open."""

    value: int = 0


class ExpectInvariant(gx.ExpectTableRowCountToEqual):
    """No row violates a transaction invariant."""

    value: int = 0


OWN: dict[str, Any] = {
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


def rule(expectation: Expectation) -> Any:
    """Return what Great Expectations judges by; raises pydantic's ValidationError where a class takes other values."""
    told: dict[str, Any] = {
        "meta": {"txloom_id": expectation.id, "hint": expectation.hint},
        "description": expectation.sentence,
        "severity": SEVERITIES[expectation.severity],
    }
    if isinstance(expectation, GreatExpectation):
        return getattr(gx, expectation.expectation)(**expectation.arguments, **told)
    limits: dict[str, Any] = {}
    if (longest := getattr(expectation, "older_than", None)) is not None:
        limits["max_value"] = int(longest.total_seconds())
    if (most := getattr(expectation, "at_most", None)) is not None:
        limits["max_value"] = most
    return OWN[expectation.kind](**limits, **told)


def is_aggregate(judged_by: Any) -> bool:
    """Tell whether one number of a whole column is judged, which Great Expectations works out in floats."""
    return isinstance(judged_by, ColumnAggregateExpectation)
