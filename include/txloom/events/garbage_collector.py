"""Python's collector of reference cycles, paused while one call makes millions of objects and no cycle.

It walks all objects whenever their number has grown by a quarter: a third of the time that the reading of 100,000
messages takes. Objects without a cycle are freed at once all the same.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Pauses:
    """The pauses of all threads of this process: the collector works again when the last of them is over."""

    def __init__(self) -> None:
        self._lock, self._number, self._was_enabled = Lock(), 0, False

    def begin(self) -> None:
        with self._lock:
            if not self._number:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._number += 1

    def end(self) -> None:
        with self._lock:
            self._number -= 1
            if not self._number and self._was_enabled:
                gc.enable()


_PAUSES = _Pauses()


@contextmanager
def paused() -> Iterator[None]:
    """Pause the collector within a block or, as a decorator, within a function; what was paused before stays paused.

    >>> with paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    _PAUSES.begin()
    try:
        yield
    finally:
        _PAUSES.end()
