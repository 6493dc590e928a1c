"""Where the project's own folders lie."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


def jars() -> Path:
    """Return the folder that holds the jars which set-up resolved: TXLOOM_JARS, or `jars` beside the rooms."""
    return Path(os.environ.get("TXLOOM_JARS") or PROJECT / "jars")
