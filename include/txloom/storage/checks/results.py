"""Results of expectations: what each check counted, since when it fails, and the reports of a run."""

import hashlib
import re
from datetime import datetime
from typing import Any

from pyarrow import fs

from txloom.config import names
from txloom.storage.delta import schema_evolution, small_tables
from txloom.storage.delta.commit_metadata import unchanged
from txloom.storage.delta.sql import text_literal
from txloom.storage.paths import TablePaths, filesystem_of
from txloom.storage.system_tables import EXPECTATION_RESULTS

INDEX = "index.html"
SAME = ("success", "failed", "severity")
"""Two results of a run on the same versions that agree in these are the same: the second is not written."""
_NEWEST = "row_number() over (partition by expectation order by checked_at desc) as n"


def of_run(paths: TablePaths, run_id: str) -> dict[str, dict[str, Any]]:
    """Return by id the newest result of each expectation that a run checked."""
    sql = f"select * from (select *, {_NEWEST} from t where run_id = {text_literal(run_id)}) where n = 1"
    return {row["expectation"]: row for row in small_tables.query(paths.table(names.EXPECTATION_RESULTS), sql)}


def entered(paths: TablePaths, result: dict[str, Any], said: dict[str, Any] | None) -> dict[str, Any]:
    """Append a result, unless its run has the same one already; return the row with its history (since when, streak).

    said: the newest result of the expectation in this run, None where there is none.
    """
    path, at = paths.table(names.EXPECTATION_RESULTS), dict(result["versions"])
    if said is not None and all(said[name] == result[name] for name in SAME) and unchanged(paths, said["versions"], at):
        return said
    row = {**result, **_streak(path, result)}
    schema_evolution.ensure(path, EXPECTATION_RESULTS)
    small_tables.append(path, [row], EXPECTATION_RESULTS)
    return {**row, "versions": dict(row["versions"])}


def _streak(path: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return since when, and for how many runs, an expectation fails; rows older than these columns count too."""
    same_expectation = f"expectation = {text_literal(result['expectation'])}"
    good = small_tables.query(path, f"select max(checked_at) as at from t where {same_expectation} and success")
    last_good: datetime | None = good[0]["at"] if good else None
    if result["success"]:
        return {"first_seen": None, "last_good": result["checked_at"], "streak": 0}
    rows = small_tables.query(path, f"select * from t where {same_expectation} and not success order by checked_at")
    rows = [row for row in rows if last_good is None or row["checked_at"] > last_good]
    first_seen = [row["first_seen"] for row in rows if row.get("first_seen") is not None]
    began = min([*first_seen, *(row["checked_at"] for row in rows), result["checked_at"]])
    before = {row["run_id"] for row in rows} - {result["run_id"]}
    counted = max((row.get("streak") or 0 for row in rows if row["run_id"] != result["run_id"]), default=0)
    return {"first_seen": began, "last_good": last_good, "streak": max(counted, len(before)) + 1}


def report_folder(run_id: str) -> str:
    """Return the name of the folder of a run's report: the run's id, or a safe form of it with a hash.

    >>> report_folder("scheduled__2026-11-20T03:00:00+00:00"), report_folder("../x")[:6]
    ('scheduled__2026-11-20T03:00:00+00:00', '_.._x-')
    """
    name = re.sub(r"[^A-Za-z0-9_.:+~-]", "_", run_id)[:150]
    if name == run_id and not name.startswith("."):
        return name
    return f"_{name}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def write_report(paths: TablePaths, run_id: str, pages: dict[str, str]) -> str:
    """Write the pages of a run's report, each over its former version; return their folder."""
    return _write(f"{paths.table(names.REPORTS)}/{report_folder(run_id)}", pages)


def write_data_docs(paths: TablePaths, run_id: str, pages: dict[str, str]) -> str:
    """Write Great Expectations' pages of a run beside its report; return their folder."""
    return _write(f"{paths.table(names.REPORTS)}/{report_folder(run_id)}/{names.DATA_DOCS}", pages)


def _write(path: str, pages: dict[str, str]) -> str:
    filesystem, folder = filesystem_of(path)
    filesystem.create_dir(folder, recursive=True)
    for name, text in pages.items():
        with filesystem.open_output_stream(f"{folder}/.{name}") as stream:
            stream.write(text.encode())
        filesystem.move(f"{folder}/.{name}", f"{folder}/{name}")
    return path


def data_docs(paths: TablePaths) -> list[tuple[str, datetime]]:
    """Return the runs that have Data Docs: name of the folder, and when they were written; newest first."""
    filesystem, root = filesystem_of(paths.table(names.REPORTS))
    folders = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True))
    runs = [each.base_name for each in folders if each.type == fs.FileType.Directory]
    first = filesystem.get_file_info([f"{root}/{name}/{names.DATA_DOCS}/{INDEX}" for name in runs])
    pages = [
        (name, page.mtime) for name, page in zip(runs, first, strict=True) if page.is_file and page.mtime is not None
    ]
    return sorted(pages, key=lambda each: (each[1], each[0]), reverse=True)


def data_docs_page(paths: TablePaths, run: str, page: str) -> str | None:
    """Return one of Great Expectations' pages of a run; None where there is none of that name.

    run: the name of its folder. Both names are compared with those that exist, so that no name leads to another folder.
    """
    filesystem, root = filesystem_of(paths.table(names.REPORTS))
    for name in (run, names.DATA_DOCS, page):
        inside = filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True))
        if name.startswith(".") or name not in {each.base_name for each in inside}:
            return None
        root = f"{root}/{name}"
    with filesystem.open_input_stream(root) as stream:
        return str(stream.read().decode())


def drop_pages(paths: TablePaths, before: datetime) -> int:
    """Remove the reports of runs that were written before a time; return how many."""
    filesystem, root = filesystem_of(paths.table(names.REPORTS))
    removed = 0
    for folder in filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True)):
        if folder.type != fs.FileType.Directory:
            continue
        pages = filesystem.get_file_info(fs.FileSelector(folder.path, recursive=True))
        if all(page.mtime is None or page.mtime < before for page in pages):
            filesystem.delete_dir(folder.path)
            removed += 1
    return removed
