"""Findings about files that cannot be read: open until they can be, or until an operator sets them aside."""

from collections.abc import Sequence

from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.storage.checks import findings
from txloom.storage.paths import TablePaths
from txloom.storage.sources import file_positions
from txloom.storage.sources.file_positions import Position


def note_unreadable(paths: TablePaths, run_id: str) -> None:
    """Record a finding for each file that cannot be read, and close those of files that could be read since.

    A repeated call changes nothing more.

    Args:
        paths: the tables of the pipeline.
        run_id: the run.
    """
    now = file_positions.unreadable(paths)
    findings.record(paths, [_finding(position) for position in now], run_id)
    close_readable(paths, now, run_id, "it was read")


def close_readable(paths: TablePaths, unreadable: Sequence[Position], run_id: str, why: str) -> None:
    """Close the findings of files that are not among those which cannot be read.

    Args:
        paths: the tables of the pipeline.
        unreadable: the files that cannot be read.
        run_id: the run.
        why: is stored with the closed findings.
    """
    names = {position.file for position in unreadable}
    over = [row for row in findings.open_findings(paths) if row["code"] == f.UNREADABLE and row["column"] not in names]
    findings.close(paths, over, run_id, why)


def _finding(position: Position) -> Finding:
    evidence = f"{position.problem}; nothing of it was landed behind its byte {position.until}"
    return Finding(f.UNREADABLE, None, position.file, None, None, evidence)
