"""The paths of the project's folders."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


def jars() -> Path:
    """Return the folder of the jars that set-up resolved: TXLOOM_JARS, or `jars` in the project."""
    return Path(os.environ.get("TXLOOM_JARS") or PROJECT / "jars")
