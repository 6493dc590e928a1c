"""The fence that keeps a run that lost its lease from writing: every fenced commit carries the lease's epoch.

Delta refuses a commit whose application transaction another commit wrote meanwhile; a write that begins after that is
refused here. `txloom.storage.runs.lease` says who holds the lease and stamps tables when it is taken over.
"""

import threading
from contextlib import suppress

from deltalake import DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.errors import LeaseTaken
from txloom.storage.stores.delta_tables import table_at

WRITES = 1 << 20
"""A fenced write's number is the epoch times this plus a count, so that it grows with each write and each epoch."""


class Fence:
    """The epoch of the lease under which this process writes, or that it holds none, and a count of its writes."""

    def __init__(self) -> None:
        """Hold no lease."""
        self._epoch: int | None = None
        self._writes = 0
        self._lock = threading.Lock()

    def begin(self, epoch: int) -> None:
        """Write under the epoch of a lease from now on."""
        self._epoch, self._writes = epoch, 0

    def end(self) -> None:
        """Write without a lease from now on."""
        self._epoch = None

    @property
    def is_held(self) -> bool:
        """Return whether this process holds a lease."""
        return self._epoch is not None

    def next_write(self) -> int | None:
        """Return a number for a fenced write, larger than all before it; None where no lease is held."""
        if self._epoch is None:
            return None
        with self._lock:
            self._writes += 1
            return self._epoch * WRITES + self._writes

    def transactions(self) -> list[Transaction]:
        """Return the application transactions by which Delta refuses a commit once another run holds the lease.

        The list is empty where no lease is held. Each call takes another number.
        """
        number = self.next_write()
        return [] if number is None else [Transaction(names.LEASES, number)]

    def opened(self, path: str) -> DeltaTable:
        """Open a table to write into it.

        Delta refuses a commit that is made through the returned table with `transactions` where another run has stamped
        the table since: so a run that is paused between this check and its commit cannot write over its successor.

        Raises:
            LeaseTaken: a later run stamped the table.
            TableNotFoundError: there is no table.
        """
        table = table_at(path)
        self._refuse(table, path)
        return table

    def refuse_stale(self, path: str) -> None:
        """Raise LeaseTaken where a later run stamped a table; do nothing where there is no table."""
        with suppress(TableNotFoundError):
            self.opened(path)

    def _refuse(self, table: DeltaTable, path: str) -> None:
        if self._epoch is None:
            return
        stamped = table.transaction_version(names.LEASES)
        if stamped is not None and stamped >= (self._epoch + 1) * WRITES:
            raise LeaseTaken(
                f"{path}: a later run took the lease over (epoch {stamped // WRITES}, this run has {self._epoch}; the "
                "table leases names it): this run writes nothing more"
            )


FENCE = Fence()
"""The fence of this process."""
