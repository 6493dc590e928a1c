"""A user who may not read everything."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be a user who may not read everything, where the tests are run by one who may."""
    privileged = os.geteuid() == 0
    try:
        if privileged:
            os.seteuid(NOBODY)
        yield
    finally:
        if privileged:
            os.seteuid(0)
