"""What a test does where a service cannot be had: a person's machine may lack it, continuous integration may not."""

import os
from collections.abc import Callable
from typing import NoReturn, TypeVar

import pytest

from services.fetched import NotHere

T = TypeVar("T")


def give_up_for(reason: object) -> NoReturn:
    """Skip the test, with the reason; where the environment variable CI is set, fail."""
    if os.environ.get("CI"):
        pytest.fail(f"in CI a service that cannot be had is a failure: {reason}", pytrace=False)
    pytest.skip(str(reason))


def needed(fetch: Callable[[], T]) -> T:
    """Return what a fetch gives; where this machine cannot have it, the test says so and gives up."""
    try:
        return fetch()
    except NotHere as reason:
        give_up_for(reason)
