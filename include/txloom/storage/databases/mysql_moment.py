"""Where a snapshot of MySQL or MariaDB lies in the binlog, and which transactions it may lack."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

GTID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:"
"""How a GTID of MySQL begins."""


@dataclass(frozen=True)
class Moment:
    """Where a snapshot lies in the binlog.

    Args:
        surely: what lies at or below this csn is in it, unless executed says otherwise.
        at_most: nothing above this csn is.
        at: when it was taken.
        executed: MySQL's set of GTIDs that are surely in it; None: the csn alone decides.
    """

    surely: int
    at_most: int
    at: datetime
    executed: str | None = None

    @property
    def unseen(self) -> str:
        """The SQL condition of changes by transactions that the snapshot may not have."""
        late = f"_txloom_csn > {self.surely}"
        if self.executed is None:
            return late
        seen = " or ".join(_among(source, ranges) for source, ranges in gtid_ranges(self.executed)) or "false"
        return f"case when regexp_like(lower(_txloom_xid), '{GTID}') then not coalesce({seen}, false) else {late} end"


def gtid_ranges(executed: str) -> list[tuple[str, list[tuple[int, int]]]]:
    """Return the ranges of numbers of each server, with its tag, in a set of GTIDs.

    >>> gtid_ranges("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-3:11,\\n3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:7")[1]
    ('3e11fa47-71ca-11e1-9e33-c80aa9429562:tag', [(7, 7)])
    """
    sets = list[tuple[str, list[tuple[int, int]]]]()
    for part in executed.lower().split(","):
        uuid, *rest = part.strip().split(":")
        source = uuid
        for each in rest:
            low, _, high = each.partition("-")
            if not low.isdigit():
                source = f"{uuid}:{low}"
            elif sets and sets[-1][0] == source:
                sets[-1][1].append((int(low), int(high or low)))
            else:
                sets.append((source, [(int(low), int(high or low))]))
    return sets


def _among(source: str, ranges: Sequence[tuple[int, int]]) -> str:
    number = f"try_cast(substr(_txloom_xid, {len(source) + 2}) as bigint)"
    within = " or ".join(f"{number} between {low} and {high}" for low, high in ranges)
    return f"(lower(substr(_txloom_xid, 1, {len(source) + 1})) = '{source}:' and ({within}))"
