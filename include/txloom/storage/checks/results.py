"""Results of expectations: what each check counted, since when it fails, and the reports of a run."""

from datetime import datetime
from typing import Any

from pyarrow import fs

from txloom.config import names
from txloom.storage.delta import schema_evolution, small_tables
from txloom.storage.delta.sql import instant_literal, text_literal
from txloom.storage.delta.table_metadata import unchanged
from txloom.storage.paths import TablePaths, run_folder, write_whole
from txloom.storage.stores.file_systems import filesystem_of
from txloom.storage.system_tables import EXPECTATION_RESULTS

INDEX = "index.html"
SAME = ("success", "failed", "severity")
"""Two results of a run on the same versions that agree in these are the same: the second is not written.

Two that were not judged are the same if they also give the same reason."""
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
    same = (*SAME, "detail") if result["success"] is None else SAME
    if said is not None and all(said[name] == result[name] for name in same) and unchanged(paths, said["versions"], at):
        return said
    before = newest(paths, result["expectation"]).get(result["expectation"])
    row = {**result, **_streak(before, result)}
    schema_evolution.ensure(path, EXPECTATION_RESULTS)
    small_tables.append(path, [row], EXPECTATION_RESULTS)
    return {**row, "versions": dict(row["versions"])}


def newest(paths: TablePaths, expectation: str | None = None, *, judged: bool = False) -> dict[str, dict[str, Any]]:
    """Return by id the newest result of each expectation, or of one, and since when it fails.

    Beside the stored columns a row has `since` (when the failures began, None where it passed), `last_good` and
    `streak` (in how many runs it failed, 0 where it passed). They are stored with each result, so that they stay when
    older results are removed; of a result from before these columns they are counted from the rows that are there. A
    result that was not judged (success None) has those of the result before it.

    Args:
        paths: the tables of the pipeline.
        expectation: the id of one expectation; None: all.
        judged: pass over results that were not judged.
    """
    path = paths.table(names.EXPECTATION_RESULTS)
    conditions = [] if expectation is None else [f"expectation = {text_literal(expectation)}"]
    conditions += ["success is not null"] if judged else []
    only = f" where {' and '.join(conditions)}" if conditions else ""
    rows = small_tables.query(path, f"select * from (select *, {_NEWEST} from t{only}) where n = 1")
    return {row["expectation"]: row | _past(path, row) for row in rows}


def _past(path: str, row: dict[str, Any]) -> dict[str, Any]:
    if row["success"]:
        return {"since": None, "last_good": row["checked_at"], "streak": 0}
    if row["success"] is None or row.get("first_seen") is not None:
        return {"since": row["first_seen"], "last_good": row["last_good"], "streak": row["streak"]}
    same = f"expectation = {text_literal(row['expectation'])}"
    (good,) = small_tables.query(path, f"select max(checked_at) as at from t where {same} and success")
    after = "" if good["at"] is None else f" and checked_at > {instant_literal(good['at'])}"
    failures = "min(checked_at) as since, count(distinct run_id) as streak"
    (failed,) = small_tables.query(path, f"select {failures} from t where {same} and not success{after}")
    return {**failed, "last_good": good["at"]}


def _streak(before: dict[str, Any] | None, result: dict[str, Any]) -> dict[str, Any]:
    """Return the stored columns on the past of a result; before: the newest result of its expectation so far."""
    at = result["checked_at"]
    if result["success"]:
        return {"first_seen": None, "last_good": at, "streak": 0}
    since, last_good, streak = (
        (before or {}).get("since"),
        (before or {}).get("last_good"),
        (before or {}).get("streak"),
    )
    if result["success"] is None:
        return {"first_seen": since, "last_good": last_good, "streak": streak or 0}
    if before is None or since is None:
        return {"first_seen": at, "last_good": last_good, "streak": 1}
    again = before["run_id"] == result["run_id"] and before["success"] is False
    return {"first_seen": since, "last_good": last_good, "streak": (streak or 0) + (0 if again else 1)}


def write_report(paths: TablePaths, run_id: str, pages: dict[str, str]) -> str:
    """Write the pages of a run's report, each over its former version; return their folder."""
    return _write(f"{paths.table(names.REPORTS)}/{run_folder(run_id)}", pages)


def write_data_docs(paths: TablePaths, run_id: str, pages: dict[str, str]) -> str:
    """Write Great Expectations' pages of a run beside its report; return their folder."""
    return _write(f"{paths.table(names.REPORTS)}/{run_folder(run_id)}/{names.DATA_DOCS}", pages)


def _write(path: str, pages: dict[str, str]) -> str:
    filesystem, folder = filesystem_of(path)
    filesystem.create_dir(folder, recursive=True)
    for name, text in pages.items():
        write_whole(filesystem, f"{folder}/{name}", text)
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
