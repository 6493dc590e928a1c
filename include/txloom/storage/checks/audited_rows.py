"""Read which rows an audit found to differ, and what makes them equal to the source."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txloom.config import names
from txloom.config.secret_names import MASK, is_secret
from txloom.quality import masking
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_literal
from txloom.storage.landing.loaded_snapshots import ANY
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.system_tables import AUDIT_RESULTS

DIFFERENT, EQUAL = "different", "equal"
"""The verdicts that decide: a table has rows which differ, or none."""
NOT_COMPARED = "not compared"
"""The verdict of a table that an audit left out, with the reason."""
ROWS, DOCUMENTS = "rows", "documents"
"""What was compared: a table's rows with the source's, or documents with the rows of their members."""
NULL_KEY, REPEATED = "null key", "repeated"
"""What no repair can mend: a key is null in part, which the lake cannot hold, or several rows have one key."""
DECIDED = f"verdict in ('{DIFFERENT}', '{EQUAL}')"
NEWEST = f"""
    select * from (
        select *, row_number() over (partition by "table" order by verdict = '{NOT_COMPARED}', at desc) as n
        from t where {{where}}
    ) where n = 1
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
        snapshot: the folder that stood for the database, and the csn as of which it was; None: the database.
        declared: a digest of the table's declaration at the audit; None: an older version of txloom wrote the result.
    """

    run_id: str
    table: str
    at: datetime
    differing: int
    repairs: tuple[Repair, ...]
    differences: tuple[dict[str, Any], ...]
    snapshot: tuple[str, int] | None = None
    declared: str | None = None

    @property
    def unlisted(self) -> int:
        """How many rows differ that a repair could mend once an audit lists them."""
        beyond = {str(each["key"]) for each in self.differences if each["kind"] == REPEATED}
        nulls = sum(1 for each in self.differences if each["kind"] == NULL_KEY)
        return max(0, self.differing - len(self.repairs) - len(beyond) - nulls)


def audited_tables(paths: TablePaths, run_id: str | None = None) -> list[AuditedTable]:
    """Return the tables of which the newest audit found rows to differ, by name; document tables are left out.

    run_id: of an audit; None: of each table the newest that decided on it.
    """
    where = DECIDED if run_id is None else f"{DECIDED} and run_id = {text_literal(run_id)}"
    rows = sorted(newest_results(paths, where), key=lambda row: str(row["table"]))
    return [_table(row) for row in rows if row["verdict"] == DIFFERENT and row["kind"] != DOCUMENTS]


def newest_results(paths: TablePaths, where: str = "true") -> list[dict[str, Any]]:
    """Return the newest row of `audit_results` of each table, of those that fulfil a condition.

    A row of an audit that left a table out counts only where there is no other.
    Columns that an older version of txloom did not write are None.
    """
    rows = small_tables.query(paths.table(names.AUDIT_RESULTS), NEWEST.format(where=where))
    return [{name: row.get(name) for name in AUDIT_RESULTS.names} for row in rows]


def differing_as_of(paths: TablePaths) -> list[tuple[dict[str, Any], tuple[int, int]]]:
    """Return the newest audits that decided, of each table whose rows they found to differ, and as of when.

    Each item has the row of the audit, then the highest csn as of which the audit compared and the release of the cut
    that it read. The row has the table's name at the time of the audit.
    """
    as_of = list[tuple[dict[str, Any], tuple[int, int]]]()
    for row in newest_results(paths, DECIDED):
        if row["verdict"] == DIFFERENT and row["kind"] != DOCUMENTS:
            cut = newest_cut(paths, "release", f"cut_id = {row['cut_id']}")
            csn = min(row["source_position"], row["valid_through"])
            as_of.append((row, (csn, ANY if cut is None else cut["release"])))
    return as_of


def masked(difference: Mapping[str, Any], secret: Collection[str]) -> dict[str, Any]:
    """Return a difference of `audit_results`, its key by column, without the values of secret columns."""
    shown, column = {**difference, "key": masking.hidden(dict(difference["key"]), secret)}, difference["column"]
    if column is not None and (column in secret or is_secret(column)):
        shown |= {side: MASK for side in ("lake", "source") if difference[side] is not None}
    return shown


def _table(row: dict[str, Any]) -> AuditedTable:
    repairs = tuple(Repair(**each) for each in row["repairs"] or ())
    differences = tuple(row["differences"] or ())
    snapshot = None if row["folder"] is None else (row["folder"], row["source_position"])
    about = (row["run_id"], row["table"], row["at"], row["differing"])
    return AuditedTable(*about, repairs, differences, snapshot, row["declared"])
