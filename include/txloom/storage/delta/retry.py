"""Repeat writes that Delta refused because another commit, such as an OPTIMIZE by hand, came first.

Only for writes that may be repeated: merges of net effects by key. A run that lost the lease is refused by the fence
all the same.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from deltalake.exceptions import CommitFailedError
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from txloom.errors import WriteConflict

LOG = logging.getLogger(__name__)

T = TypeVar("T")
ATTEMPTS = 4
LONGEST = 2.0
"""The longest wait before an attempt, in seconds: waits are drawn, and grow, so that two writers do not meet again."""


def _endless(met: str) -> str:
    return f"others write all the time: {met}; end what optimizes or changes this table by hand"


def repeated(write: Callable[[], T], attempts: int = ATTEMPTS, refusal: Callable[[str], str] = _endless) -> T:
    """Call a write until Delta accepts its commit, and return what it returns; each attempt opens its table anew.

    A line is logged for each conflict. Other errors of the write are raised as they are.

    Args:
        write: a write that may be repeated.
        attempts: how often it is called at most.
        refusal: makes the sentence of the error of the last conflict.

    Raises:
        WriteConflict: every attempt met another commit.
    """
    retrying = Retrying(
        retry=retry_if_exception(is_conflict),
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=0.05, max=LONGEST),
        before_sleep=_report,
        reraise=True,
    )
    try:
        return retrying(write)
    except Exception as error:
        if not is_conflict(error):
            raise
        raise WriteConflict(refusal(first_line(error))) from error


def _report(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, Exception):
        LOG.warning(f"another writer came first, the write is made again: {first_line(error)}")


def is_conflict(error: BaseException) -> bool:
    """Return whether an error, of delta-rs or of Spark, says that another commit came first."""
    return isinstance(error, CommitFailedError) or "[DELTA_CONCURRENT_" in str(error)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 300 characters of it."""
    return str(error).splitlines()[0][:300]
