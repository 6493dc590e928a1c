"""The paths of the project's folders."""

import os
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


def jars() -> Path:
    """Return the folder of the jars that set-up resolved: TXLOOM_JARS, or `jars` in the project."""
    return Path(os.environ.get("TXLOOM_JARS") or PROJECT / "jars")


def class_path() -> str:
    """Return the class path of a driver: the jars, and those of each folder among them, such as `s3`.

    The jars of a store that set-up does not bring (ABFS, GCS) go into a folder of their own beside it.
    """
    return _class_path(jars())


@cache
def _class_path(folder: Path) -> str:
    stores = sorted(entry for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
    return ":".join(f"{each}/*" for each in (folder, *stores))
