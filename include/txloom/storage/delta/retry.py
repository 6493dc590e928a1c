"""Repeat writes that Delta refused because another commit, such as an OPTIMIZE by hand, came first.

Only for writes that may be repeated: merges of net effects by key. A run that lost the lease is refused by the fence
all the same.
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
    """Call a write until Delta accepts its commit, at most ATTEMPTS times, and return what it returns.

    A line is printed for each conflict. Other errors of the write are raised as they are.

    Raises:
        WriteConflict: every attempt met another commit.
    """
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
    """Return whether an error, of delta-rs or of Spark, says that another commit came first."""
    return isinstance(error, CommitFailedError) or "[DELTA_CONCURRENT_" in str(error)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 300 characters of it."""
    return str(error).splitlines()[0][:300]
