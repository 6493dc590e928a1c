"""Tables worked on beside each other."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
WRITERS = 4
"""Calls made at once: a small read or commit waits for its own files more than for the two cores."""


def together(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Make calls beside each other and return their results in order; the first error is raised."""
    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(lambda call: call(), calls))
