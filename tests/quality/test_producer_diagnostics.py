"""What transactions that were given up say about their producer: counts in, findings out."""

import pytest

from txloom.quality import findings as f
from txloom.quality.findings import HINTS
from txloom.quality.producer_diagnostics import TransactionSeen, diagnose, uncounted


def diagnosed(*standings: TransactionSeen) -> list[tuple[str, str | None, int | None, str]]:
    return [(finding.code, finding.table, finding.since_csn, finding.evidence) for finding in diagnose(standings)]


def test_metadata_that_counts_several_transactions_is_a_grouping_producer() -> None:
    first = TransactionSeen("a", 10, {"orders": 3, "lines": 2}, {"orders": 1})
    others = [TransactionSeen("b", 11, None, {"orders": 1, "lines": 2}), TransactionSeen("c", 12, None, {"orders": 1})]
    assert diagnosed(others[1], first, others[0]) == [
        (f.GROUPED, None, 10, "metadata of a counts 2 of lines, 3 of orders; a, b, c have that together")
    ]


def test_transactions_that_do_not_add_up_are_no_grouping() -> None:
    first = TransactionSeen("a", 10, {"orders": 3}, {"orders": 1})
    assert diagnosed(first, TransactionSeen("b", 11, None, {"orders": 1})) == []
    assert diagnosed(first, TransactionSeen("b", 11, None, {"orders": 3})) == []
    assert (
        diagnosed(first, TransactionSeen("b", 11, {"orders": 1}, {}), TransactionSeen("c", 12, None, {"orders": 2}))
        == []
    )
    assert diagnosed(TransactionSeen("b", 9, None, {"orders": 2}), first) == []


def test_an_excess_of_exactly_the_deletes_is_a_producer_that_does_not_count_them() -> None:
    both = {"I": {"orders": 1}, "D": {"orders": 2, "lines": 1}}
    assert diagnosed(TransactionSeen("a", 10, {"orders": 1}, {"orders": 3, "lines": 1}, both)) == [
        (f.DELETES_UNCOUNTED, "lines", 10, "the rows that its metadata leaves out (1) are of operation D"),
        (f.DELETES_UNCOUNTED, "orders", 10, "the rows that its metadata leaves out (2) are of operation D"),
    ]


def test_a_transaction_of_deletes_without_metadata_is_one_too() -> None:
    (finding,) = diagnosed(TransactionSeen("a", 10, None, {"orders": 2}, {"D": {"orders": 2}}))
    assert finding == (f.DELETES_UNCOUNTED, "orders", 10, "no metadata came, and all its rows (2) are of operation D")
    assert diagnosed(TransactionSeen("a", 10, None, {"orders": 2}, {"U": {"orders": 2}})) == []


@pytest.mark.parametrize(
    ("expected", "received", "operations", "sentence"),
    [
        ({"t": 1}, {"t": 2}, {"I": {"t": 1}, "T": {"t": 1}}, "T"),
        ({"t": 1}, {"t": 3}, {"I": {"t": 1}, "U": {"t": 2}}, "U"),
        ({"t": 1}, {"t": 3}, {"I": {"t": 2}, "D": {"t": 1}}, None),
        ({"t": 1, "u": 1}, {"t": 2}, {"I": {"t": 1}, "D": {"t": 1}}, None),
        ({"t": 2}, {"t": 2}, {"I": {"t": 2}}, None),
        ({"t": 3}, {"t": 2}, {"D": {"t": 1}}, None),
    ],
)
def test_an_operation_is_named_only_where_it_is_the_whole_difference(
    expected: dict[str, int], received: dict[str, int], operations: dict[str, dict[str, int]], sentence: str | None
) -> None:
    assert uncounted(expected, received, operations) == sentence


def test_every_finding_has_a_hint() -> None:
    codes = {value for name, value in vars(f).items() if name.isupper() and isinstance(value, str)}
    assert codes == set(HINTS)
