"""What keeps a run that lost its lease from writing: every fenced commit carries the lease's epoch.

Delta refuses a commit whose application transaction another commit has moved on meanwhile; one that begins later is
refused here. `txloom.storage.lease` says who holds the lease and stamps tables when it is taken over.
"""

import threading

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

    def refuse_stale(self, path: str) -> None:
        """Raise LeaseTaken when a later run stamped a table."""
        if self._epoch is None:
            return
        try:
            stamped = DeltaTable(path).transaction_version(names.LEASES)
        except TableNotFoundError:
            return
        if stamped is not None and stamped >= (self._epoch + 1) * WRITES:
            raise LeaseTaken(
                f"{path}: a later run took the lease over (epoch {stamped // WRITES}, this run has {self._epoch}; the "
                "table leases names it): this run writes nothing more"
            )


FENCE = Fence()
"""Of this process."""
