"""How much of a table a repair deletes or changes, and when a person has to allow that number of rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from txloom.config.models.audit import SMALLEST_ROWS, Audit
from txloom.config.models.pipeline import Pipeline
from txloom.storage.checks.audited_rows import AuditedTable
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.targets.row_tables import row_tables


@dataclass(frozen=True)
class Share:
    """The rows of a table that a repair deletes or changes.

    Args:
        table: its declared name.
        going: how many these are.
        unlisted: how many more rows differ that the audit does not list; they count too.
        rows: how many rows the lake has of the table.
        limit: how many may be deleted or changed without a person's word.
        max_share: what the limit is computed from, as it is declared.
    """

    table: str
    going: int
    unlisted: int
    rows: int
    limit: int
    max_share: str

    @classmethod
    def of(cls, pipeline: Pipeline, paths: TablePaths, audited: AuditedTable, going: int | None = None) -> "Share":
        """Count the rows that the repair of an audit deletes or changes: an insert takes no value away.

        going: how many, where that is known better than the audit knew it.
        """
        current = next(each.current for each in row_tables(pipeline) if each.table.name == audited.table)
        counted = small_tables.query(paths.table(current), "select count(*) as n from t")
        rows = int(counted[0]["n"]) if counted else 0
        declared = (pipeline.audit or Audit()).repair
        going = sum(each.op != "r" for each in audited.repairs) if going is None else going
        return cls(audited.table, going, audited.unlisted, rows, declared.limit(rows), declared.max_share)

    @property
    def number(self) -> int:
        """How many rows a person is asked to allow; where none is deleted or changed, none that is not listed counts.

        >>> Share("orders", 10, 5, 200, 20, "10%").number, Share("orders", 0, 5, 200, 20, "10%").number
        (15, 0)
        """
        return self.going + self.unlisted if self.going else 0

    @property
    def text(self) -> str:
        """The share in words.

        >>> Share("orders", 200, 0, 200, 20, "10%").text
        'orders: 200 of 200 rows (100.0%) would be deleted or changed; audit.repair.max_share (10%) allows 20'
        """
        share = f"{100 * self.number / max(self.rows, 1):.1f}%"
        more = f", with {self.unlisted} that differ and are not listed" if self.unlisted else ""
        counted = "" if self.rows >= SMALLEST_ROWS else f" of {SMALLEST_ROWS} rows"
        allows = f"audit.repair.max_share ({self.max_share}{counted}) allows {self.limit}"
        return f"{self.table}: {self.number} of {self.rows} rows ({share}) would be deleted or changed{more}; {allows}"


def exceeding(shares: Sequence[Share]) -> list[Share]:
    """Return the tables of which more would be deleted or changed than is declared."""
    return [each for each in shares if each.number > each.limit]


def refusal(large: Sequence[Share], allowed_rows: int | None) -> str:
    """Return why a repair is refused, and what a person can do.

    >>> refusal([Share("orders", 200, 0, 200, 20, "10%")], None)[:41]
    'the repair is refused: nothing was landed'
    """
    number = sum(each.number for each in large)
    was = "" if allowed_rows is None else f", and {allowed_rows} were allowed"
    shares = "; ".join(each.text for each in large)
    return (
        f"the repair is refused: nothing was landed. {shares}{was}. Look at some of these rows at the source. If they "
        f"are wrong in the lake, run it with --allow-rows {number} (the field allow_rows of the approval and of the "
        "form); else audit again, or load the table anew (jobs/load_snapshot.py)"
    )
