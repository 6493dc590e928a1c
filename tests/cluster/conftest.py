"""What tests of a cluster share."""

import subprocess
import sys
from pathlib import Path

import pytest

from txloom.config.project import PROJECT


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive with the Python packages that executors get."""
    archive = tmp_path_factory.mktemp("packages") / "executors.tar.gz"
    subprocess.run([sys.executable, PROJECT / "scripts" / "pack_executors.py", archive], check=True)
    return archive
