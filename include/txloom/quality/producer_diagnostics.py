"""Producer diagnostics: what transactions that were given up say about their producer's settings; rules on counts only.

The input is one TransactionSeen for each such transaction: received and expected rows by table (expected None: no
metadata came), and how many of the received rows each operation has.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from txloom.quality import findings as f
from txloom.quality.findings import Finding

Counts = Mapping[str, int]
MEMBERS = 1_000
"""At most so many transactions are taken for one group of a grouping producer: its usual GROUPTRANSOPS."""


@dataclass(frozen=True)
class TransactionSeen:
    """One transaction that was given up."""

    xid: str
    csn: int
    expected: Counts | None
    received: Counts
    operations: Mapping[str, Counts] = field(default_factory=dict)
    """By operation, the rows by table."""


def diagnose(standings: Sequence[TransactionSeen]) -> list[Finding]:
    """Return findings: at most one that transactions are grouped, then the operations that metadata leaves out."""
    ordered = sorted(standings, key=lambda seen: seen.csn)
    return [*_grouped(ordered), *(finding for seen in ordered for finding in _uncounted(seen))]


def _grouped(ordered: Sequence[TransactionSeen]) -> list[Finding]:
    """Return at most one finding: metadata of one transaction that counts the rows of it and of those behind it.

    ordered: by csn. Transactions behind the first count as its group as long as they have no metadata themselves.
    """
    for position, first in enumerate(ordered):
        if first.expected is None or _total(first.received) >= _total(first.expected):
            continue
        counted, members = dict(first.received), [first.xid]
        for other in ordered[position + 1 : position + MEMBERS]:
            if other.expected is not None:
                break
            counted = dict(Counter(counted) + Counter(other.received))
            members.append(other.xid)
            if counted == _there(first.expected):
                counts = ", ".join(f"{count} of {table}" for table, count in sorted(counted.items()))
                shown = ", ".join(members[:5]) + (", ..." if len(members) > 5 else "")
                evidence = f"metadata of {first.xid} counts {counts}; {shown} have that together"
                return [Finding(f.GROUPED, None, None, first.csn, first.xid, evidence)]
    return []


def _uncounted(seen: TransactionSeen) -> list[Finding]:
    """Return a finding for each table, where the metadata of a transaction lacks exactly the rows of one operation."""
    operation = uncounted(seen.expected or {}, seen.received, seen.operations)
    if operation is None or (seen.expected is None and operation != "D"):
        return []
    code = f.DELETES_UNCOUNTED if operation == "D" else f.OPERATIONS_UNCOUNTED
    rows = seen.operations[operation]
    sentence = (
        "no metadata came, and all its rows" if seen.expected is None else "the rows that its metadata leaves out"
    )
    return [
        Finding(code, table, None, seen.csn, seen.xid, f"{sentence} ({count}) are of operation {operation}")
        for table, count in sorted(rows.items())
    ]


def uncounted(expected: Counts, received: Counts, operations: Mapping[str, Counts]) -> str | None:
    """Return the operation (D, T or U) whose rows are exactly those received beyond the expected; None without one.

    >>> uncounted({"orders": 1}, {"orders": 3}, {"I": {"orders": 1}, "D": {"orders": 2}})
    'D'
    """
    beyond = {table: count - expected.get(table, 0) for table, count in received.items()}
    beyond |= {table: -count for table, count in expected.items() if table not in received}
    beyond = _there(beyond)
    if not beyond:
        return None
    return next((op for op in ("D", "T", "U") if _there(operations.get(op, {})) == beyond), None)


def _there(counts: Counts) -> dict[str, int]:
    return {table: count for table, count in counts.items() if count}


def _total(counts: Counts) -> int:
    return sum(counts.values())
