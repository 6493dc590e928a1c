"""Read which rows an audit found to differ, and what makes them equal to the source."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txloom.config import names
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_literal
from txloom.storage.paths import TablePaths

DIFFERENT = "different"
NEWEST = """
    select * from (select *, row_number() over (partition by "table" order by at desc) as n from t{where})
    where n = 1
"""


@dataclass(frozen=True)
class Repair:
    """A change that makes a row equal to the source's.

    Args:
        op: r (the lake lacks the row), U or D.
        image: the source's row as a JSON object, by the names that it has there; of D the key.
        csn: as of which the source had it.
        at: when that was; None: unknown, as of files.
    """

    op: str
    image: str
    csn: int
    at: datetime | None


@dataclass(frozen=True)
class AuditedTable:
    """The rows of a table that an audit found to differ.

    Args:
        run_id: of the audit.
        table: its declared name.
        at: when the audit wrote its result.
        differing: how many rows differ.
        repairs: of the first of them.
        differences: of these, as `audit_results` has them.
    """

    run_id: str
    table: str
    at: datetime
    differing: int
    repairs: tuple[Repair, ...]
    differences: tuple[dict[str, Any], ...]


def audited_tables(paths: TablePaths, run_id: str | None = None) -> list[AuditedTable]:
    """Return the tables that the newest audit of each found to differ, by name.

    run_id: of an audit; None: of each table the newest that decided on it.
    """
    where = "" if run_id is None else f" where run_id = {text_literal(run_id)}"
    rows = small_tables.query(paths.table(names.AUDIT_RESULTS), NEWEST.format(where=where))
    return [_table(row) for row in sorted(rows, key=lambda row: str(row["table"])) if row["verdict"] == DIFFERENT]


def _table(row: dict[str, Any]) -> AuditedTable:
    repairs = tuple(Repair(**each) for each in row.get("repairs") or ())
    differences = tuple(row["differences"] or ())
    return AuditedTable(row["run_id"], row["table"], row["at"], row["differing"], repairs, differences)
