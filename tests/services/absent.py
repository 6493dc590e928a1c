"""What a test does where a service cannot be had: a person's machine may lack it, continuous integration may not."""

import os
from typing import NoReturn

import pytest


def give_up_for(reason: object) -> NoReturn:
    """Skip the test, with the reason; where the environment variable CI is set, fail."""
    if os.environ.get("CI"):
        pytest.fail(f"in CI a service that cannot be had is a failure: {reason}", pytrace=False)
    pytest.skip(str(reason))
