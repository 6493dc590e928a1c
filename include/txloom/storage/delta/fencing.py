"""What keeps a run that lost its lease from writing: every fenced commit carries the lease's epoch.

Delta refuses a commit whose application transaction another commit has moved on meanwhile; one that begins later is
refused here. `txloom.storage.runs.lease` says who holds the lease and stamps tables when it is taken over.
"""

import threading
from contextlib import suppress

from deltalake import DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.errors import LeaseTaken

WRITES = 1 << 20
"""A fenced write's number is the epoch times this plus a count: it grows from write to write and across epochs."""


class Fence:
    """The epoch under which this process writes, None where it holds no lease, and how often it wrote."""

    def __init__(self) -> None:
        """Begin without a lease."""
        self._epoch: int | None = None
        self._writes = 0
        self._lock = threading.Lock()

    def begin(self, epoch: int) -> None:
        """Write under an epoch from now on."""
        self._epoch, self._writes = epoch, 0

    def end(self) -> None:
        """Write without a lease from now on."""
        self._epoch = None

    @property
    def is_held(self) -> bool:
        """Tell whether this process holds a lease."""
        return self._epoch is not None

    def next_write(self) -> int | None:
        """Return the number of a fenced write, larger than all before; None where no lease is held."""
        if self._epoch is None:
            return None
        with self._lock:
            self._writes += 1
            return self._epoch * WRITES + self._writes

    def transactions(self) -> list[Transaction]:
        """Return what a commit carries so that Delta refuses it once another run holds the lease; [] without one."""
        number = self.next_write()
        return [] if number is None else [Transaction(names.LEASES, number)]

    def opened(self, path: str) -> DeltaTable:
        """Open a table to write into it; raises LeaseTaken when a later run stamped it, TableNotFoundError.

        What is committed through the very table with `transactions` is refused by Delta once another run stamped it
        since: no moment lies between this look and the commit in which a paused run could be overtaken.
        """
        table = DeltaTable(path)
        self._refuse(table, path)
        return table

    def refuse_stale(self, path: str) -> None:
        """Raise LeaseTaken when a later run stamped a table."""
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
"""Of this process."""
