"""What tests of the read model share."""

from pathlib import Path

import pytest

from storage.views.booked import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Return a pipeline that never ran."""
    return Shop(tmp_path)
