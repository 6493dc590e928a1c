"""How the JVM of a job starts: what suits short runs, and the class archive that set-up made."""

import os
from pathlib import Path

from txloom.config.project import PROJECT

PLANS_MUCH = frozenset({"merge_current", "maintain_tables"})
"""Steps whose JVM, where they need one, works long enough for both compilers; in the others Arrow does the work."""
FIRST_COMPILER = " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Without the second compiler a JVM reserves 48 MB for code, which Spark fills: then it looks for room all the time."""
LOG = f"-Dlog4j2.configurationFile={PROJECT / 'include' / 'bin' / 'log4j2.properties'}"
"""A person reads the task's log: errors only, and no stack of a hundred lines."""


def flags(step: str | None = None) -> str:
    """Return the JVM's flags for a step; without one, for a session that lives long."""
    if step is None:
        return f"-XX:+UseParallelGC{_archive()} {LOG}"
    compiler = "" if step in PLANS_MUCH else FIRST_COMPILER
    return f"-XX:+UseSerialGC{compiler}{_archive()} {LOG}"


def _archive() -> str:
    archive = Path(os.environ.get("TXLOOM_CLASS_ARCHIVE") or PROJECT / ".state" / "spark.jsa")
    return f" -XX:SharedArchiveFile={archive} -Xshare:auto" if archive.is_file() else ""
