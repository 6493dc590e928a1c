"""How the JVM of a job starts: what suits short runs, and the class archive that set-up made."""

import os
from pathlib import Path

from txloom.config.places import PROJECT

PLANS_MUCH = frozenset({"merge_current", "maintain_tables"})
"""Steps whose JVM, where they need one, works long enough for both compilers; in the others Arrow does the work."""


def flags(step: str | None = None) -> str:
    """Return the JVM's flags for a step; without one, for a session that lives long."""
    if step is None:
        return f"-XX:+UseParallelGC{_archive()}"
    compiler = "" if step in PLANS_MUCH else " -XX:TieredStopAtLevel=1"
    return f"-XX:+UseSerialGC{compiler}{_archive()}"


def _archive() -> str:
    archive = Path(os.environ.get("TXLOOM_CLASS_ARCHIVE") or PROJECT / ".state" / "spark.jsa")
    return f" -XX:SharedArchiveFile={archive} -Xshare:auto" if archive.is_file() else ""
