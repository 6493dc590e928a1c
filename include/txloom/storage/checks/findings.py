"""Findings as rows: the newest row of a (code, table, column) says whether it is open.

Those about one transaction (`OF_TRANSACTION`) are identified by the transaction too.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from txloom.config import names
from txloom.quality.findings import ADDED, DROPPED, INCOMPLETE, NEEDS_SNAPSHOT, OF_TRANSACTION, Finding
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_list, text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import FINDINGS

LOG = logging.getLogger(__name__)

BACK = "inserts have it again"
"""Why the finding of a dropped column is closed: inserts have the column again."""
_STATE_COLUMNS = f"case when code in ({text_list(sorted(OF_TRANSACTION))}) then"
_NAME = f'code, "table", "column", {_STATE_COLUMNS} xid end, {_STATE_COLUMNS} since_csn end'
_LAST = f"select * from (select *, row_number() over (partition by {_NAME} order by at desc) as n from t) where n = 1"
NEWEST = f"{_LAST} and status = 'open' order by since_csn, code, \"table\""
Name = tuple[str, str | None, str | None, str | None, int | None]


def open_findings(paths: TablePaths) -> list[dict[str, Any]]:
    """Return the open findings as rows of FINDINGS, oldest csn first."""
    rows = small_tables.query(paths.table(names.FINDINGS), NEWEST)
    return [{name: row[name] for name in FINDINGS.names} for row in rows]


def closed_with(paths: TablePaths, end: str) -> list[dict[str, Any]]:
    """Return the closed findings whose evidence ends with a text, as rows of FINDINGS, oldest csn first."""
    sql = f"{_LAST} and status = 'closed' and ends_with(evidence, {text_literal(end)}) order by since_csn"
    rows = small_tables.query(paths.table(names.FINDINGS), sql)
    return [{name: row[name] for name in FINDINGS.names} for row in rows]


def ever(paths: TablePaths, code: str) -> list[dict[str, Any]]:
    """Return xid and since_csn of all findings of a code, open or closed."""
    sql = f"select distinct xid, since_csn from t where code = {text_literal(code)}"
    return small_tables.query(paths.table(names.FINDINGS), sql)


def came_back(paths: TablePaths, table: str) -> set[str]:
    """Return the columns of a table that were dropped, and that inserts had again at any time."""
    of_table = f"code = {text_literal(DROPPED)} and \"table\" = {text_literal(table)} and status = 'closed'"
    sql = f'select distinct "column" from t where {of_table} and ends_with(evidence, {text_literal(BACK)})'
    return {row["column"] for row in small_tables.query(paths.table(names.FINDINGS), sql)}


def record(
    paths: TablePaths, observed: Iterable[Finding], run_id: str, source_format: str | None = None
) -> list[Finding]:
    """Append findings that are not open yet, of each the earliest, and print them to the log; return those.

    A column that the source added is appended again when a lower csn has it: a transaction that waited is released
    after later ones. The finding of an incomplete history is appended again when its evidence or its hint changes. A
    repeated call appends nothing.

    Args:
        paths: the tables of the pipeline.
        observed: the findings.
        run_id: the run.
        source_format: the format of the source, so that the hints fit its producer.
    """
    new: dict[Name, Finding] = {}
    # By their words too, because the order in which they are observed may depend on how the work was cut.
    for each in sorted(observed, key=lambda each: (each.since_csn or 0, each.evidence or "")):
        new.setdefault(name_of(vars(each)), each)
    if not new:
        return []
    for row in open_findings(paths):
        again = new.get(name_of(row))
        if again is not None and not _is_news(again, row, source_format):
            del new[name_of(row)]
    append(paths, [_row(each, run_id, source_format) for each in new.values()])
    for each in new.values():
        LOG.info(f"{each.severity}: {lines(each, source_format)}")
    return list(new.values())


def _is_news(finding: Finding, row: dict[str, Any], source_format: str | None) -> bool:
    """Return whether a finding is appended although it is open; row: the open one."""
    if finding.code == INCOMPLETE:
        return (finding.evidence, finding.hint(source_format)) != (row["evidence"], row["hint"])
    return finding.code == ADDED and (finding.since_csn or 0) < row["since_csn"]


def note(paths: TablePaths, harmless: Sequence[Finding], run_id: str) -> None:
    """Append findings that need nothing to be done, each once: they are closed from the start."""
    codes = text_list(sorted({each.code for each in harmless}))
    sql = f'select code, "table", "column", xid, since_csn from t where code in ({codes})'
    known = {name_of(row) for row in small_tables.query(paths.table(names.FINDINGS), sql)} if harmless else set()
    new = [each for each in harmless if name_of(vars(each)) not in known]
    append(paths, [_row(each, run_id) | {"status": "closed"} for each in new])
    for each in new:
        LOG.info(f"note: {lines(each)}")


def repaired(paths: TablePaths, code: str) -> set[tuple[str | None, int | None]]:
    """Return the transactions (xid, csn) that have findings of this code, none of them open."""
    rows = small_tables.query(paths.table(names.FINDINGS), f"select * from t where code = {text_literal(code)}")
    still = {(row["xid"], row["since_csn"]) for row in open_findings(paths) if row["code"] == code}
    return {(row["xid"], row["since_csn"]) for row in rows} - still


def lines(finding: Finding, source_format: str | None = None) -> str:
    """Return a finding on one line: what, where, since when, what shows it, what to do.

    >>> lines(Finding("csn jumped back", None, None, 7, "x1", "x1 has csn 7"))[:56]
    'csn jumped back, since csn 7 (x1): x1 has csn 7. The new'
    """
    where = ".".join(name for name in (finding.table, finding.column) if name)
    since = "" if finding.since_csn is None else f"since csn {finding.since_csn}"
    since += f" ({finding.xid})" if since and finding.xid is not None else ""
    what = ", ".join(part for part in (finding.code, where, since) if part)
    return f"{what}: {finding.evidence}. {finding.hint(source_format)}"


def close(paths: TablePaths, rows: Sequence[dict[str, Any]], run_id: str, why: str) -> None:
    """Append rows that close open findings; their evidence also says why."""
    now = datetime.now(UTC)
    closing = {"status": "closed", "run_id": run_id, "at": now}
    append(paths, [{**row, **closing, "evidence": f"{row['evidence']}; {why}"} for row in rows])


def needing_snapshot(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the tables that need a snapshot; '*' stands for all tables."""
    return sorted({row["table"] or "*" for row in rows if row["needs_snapshot"]})


def append(paths: TablePaths, rows: Sequence[dict[str, Any]]) -> None:
    """Append rows in one commit; write nothing if there are none."""
    if rows:
        small_tables.append(paths.table(names.FINDINGS), rows, FINDINGS)


def name_of(row: Mapping[str, Any]) -> Name:
    """Return what identifies a finding. Of the rows of one finding, the newest is valid."""
    transaction = (row["xid"], row["since_csn"]) if row["code"] in OF_TRANSACTION else (None, None)
    return row["code"], row["table"], row["column"], *transaction


def _row(finding: Finding, run_id: str, source_format: str | None = None) -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(finding).items() if name in FINDINGS.names},
        "severity": finding.severity,
        "needs_snapshot": finding.code in NEEDS_SNAPSHOT,
        "hint": finding.hint(source_format),
        "status": "open",
        "run_id": run_id,
        "at": datetime.now(UTC),
    }
