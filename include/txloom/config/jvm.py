"""The flags with which a job's JVM starts: options for short runs, and the class archive that set-up made."""

import os
from pathlib import Path

from txloom.config.project import PROJECT

PLANS_MUCH = frozenset({"merge_current", "maintain_tables"})
"""Steps whose JVM, where they need one, works long enough for both compilers; in the others Arrow does the work."""
FIRST_COMPILER = " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Without the second compiler a JVM reserves only 48 MB for code; Spark fills that, and the JVM keeps freeing space."""
LOG = f"-Dlog4j2.configurationFile={PROJECT / 'include' / 'bin' / 'log4j2.properties'}"
"""The task's log is read by people, so it holds errors only, without stack traces of a hundred lines."""


def flags(step: str | None = None) -> str:
    """Return the JVM's flags for a step; for None, those for a long-running session."""
    if step is None:
        return f"-XX:+UseParallelGC{_archive()} {LOG}"
    compiler = "" if step in PLANS_MUCH else FIRST_COMPILER
    return f"-XX:+UseSerialGC{compiler}{_archive()} {LOG}"


def _archive() -> str:
    archive = Path(os.environ.get("TXLOOM_CLASS_ARCHIVE") or PROJECT / ".state" / "spark.jsa")
    return f" -XX:SharedArchiveFile={archive} -Xshare:auto" if archive.is_file() else ""
