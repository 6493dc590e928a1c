"""Writes that Delta refused because somebody else's commit came first, such as an OPTIMIZE by hand: made once more.

Only for writes that may be repeated: merges of net effects by key. Whoever lost the lease is refused by the fence.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from deltalake.exceptions import CommitFailedError

from txloom.errors import WriteConflict

LOG = logging.getLogger(__name__)

T = TypeVar("T")
ATTEMPTS = 4


def repeated(write: Callable[[], T]) -> T:
    """Make a write, again where it met another one; raises WriteConflict when that never ends."""
    for _ in range(ATTEMPTS):
        try:
            return write()
        except Exception as error:
            if not is_conflict(error):
                raise
            met = first_line(error)
            LOG.warning(f"another writer came first, the write is made again: {met}")
    raise WriteConflict(f"others write all the time: {met}; end what optimizes or changes this table by hand")


def is_conflict(error: Exception) -> bool:
    """Tell whether Delta refused a commit because of another one, here or through Spark."""
    return isinstance(error, CommitFailedError) or "[DELTA_CONCURRENT_" in str(error)


def first_line(error: Exception) -> str:
    """Return what an error says before it goes into detail."""
    return str(error).splitlines()[0][:300]
