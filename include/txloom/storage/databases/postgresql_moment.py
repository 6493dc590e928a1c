"""Where a snapshot of PostgreSQL lies in its log, and which transactions it may not have."""

from dataclasses import dataclass
from datetime import datetime

XIDS = 1 << 32
WINDOW = 1 << 30
"""Bytes of the log within which a commit that is written becomes visible; ids of transactions count round later."""


@dataclass(frozen=True)
class Moment:
    """Where a snapshot lies in the source's log."""

    surely: int
    at_most: int
    running: frozenset[str]
    """Transactions (xid) that had not ended: not in the snapshot, wherever their commit lies."""
    next_xid: int
    """From which xid on none is in the snapshot, by 32 bits that count round."""
    at: datetime

    @property
    def unseen(self) -> str:
        """The SQL condition of changes by transactions that the snapshot may not have."""
        late = f"_txloom_csn > {self.surely}"
        ahead = f"(try_cast(_txloom_xid as bigint) - {self.next_xid} + {XIDS}) % {XIDS} < {XIDS // 2}"
        running = ", ".join(f"'{int(xid)}'" for xid in sorted(self.running))
        invisible = f"{ahead} or _txloom_xid in ({running})" if running else ahead
        return f"{late} or (_txloom_csn > {self.surely - WINDOW} and ({invisible}))"
