"""What several rooms' tests share: one Spark session, and a pipeline of the sample in a folder of its own."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

PROJECT = Path(__file__).resolve().parents[1]

# How fast a machine draws examples says nothing of what is tested.
settings.register_profile("txloom", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("txloom")
logging.getLogger("py4j").setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """Open the session that jobs open, once for all tests."""
    os.environ.setdefault("TXLOOM_DRIVER_MEMORY", "3g")
    from txloom.storage.session import open_session

    session = open_session("txloom tests")
    yield session
    session.stop()


pytest_plugins = ["services.fixtures"]
