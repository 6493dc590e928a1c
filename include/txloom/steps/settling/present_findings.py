"""Update open findings to the present declaration: a finding gets the present names of its table and column.

A finding is recorded with the names that the lake has then. The rows of a renamed table or column are the same rows,
because their source is the same. A removed table or column has no rows, so its findings close.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from txloom.config.models.pipeline import Pipeline, Table
from txloom.quality import findings as f
from txloom.storage.checks import findings
from txloom.storage.declarations import records as r
from txloom.storage.declarations.incomplete import feeding
from txloom.storage.declarations.records import Record
from txloom.storage.declarations.undeclared_columns import Adopted, adopted
from txloom.storage.paths import TablePaths

Named = tuple[str | None, str | None]
"""The table and the column of a finding."""
REMOVED = "no declared target has it"
"""Why the finding of a removed table or column is closed."""
OTHERS = frozenset((f.INCOMPLETE, f.SEVERAL, f.UNANSWERED))
"""Findings that are not updated here: the steps that record them compare them with the declaration."""
OF_MESSAGES = frozenset(
    (
        f.ADDED,
        f.NO_BEFORE,
        f.SHORT_NAMES,
        f.DELETES_UNCOUNTED,
        f.OPERATIONS_UNCOUNTED,
        f.TWO_RUNS,
        f.COUNTS_CHANGED,
        f.TAKEN_TWICE,
        f.READ_AGAIN,
        f.TABLE_NOT_EXTRACTED,
    )
)
"""Findings about the messages of a watched table. Other findings are about the rows of its current table."""
RETURNING = f.NEEDS_SNAPSHOT - {f.INCOMPLETE, f.RENAMED}
"""Findings that open again with their table or column. Merges and messages find the other faults again."""


@dataclass(frozen=True)
class PresentNames:
    """The names of the tables and columns of findings in the present declaration.

    Args:
        pipeline: the declaration with columns that tables took up.
        known: the records, in order.
        taken_up: the columns that tables took up.
    """

    pipeline: Pipeline
    known: Sequence[Record]
    taken_up: Sequence[Adopted]

    @classmethod
    def read(cls, pipeline: Pipeline, paths: TablePaths) -> "PresentNames":
        """Read the records and the columns that tables took up."""
        return cls(pipeline, r.read(paths), adopted(paths))

    @cached_property
    def _shown(self) -> set[str]:
        return {*feeding(self.pipeline)}

    def find(self, row: Mapping[str, Any]) -> Named | None:
        """Return the present table and column of a finding; None if the declaration no longer has one of them.

        Args:
            row: a row of `findings`.
        """
        name, column, code = row["table"], row["column"], row["code"]
        if name is None or code in OTHERS:
            return name, column
        if code == f.DOCUMENTS_DIFFER:
            return (name, column) if name in {each.current for each in self.pipeline.targets.aggregates} else None
        earlier = self._declared_before(row)
        table = self._find_table(name, earlier)
        if table is None or (code not in OF_MESSAGES and table.name not in self._shown):
            return None
        if column is None or code == f.ADDED:  # Its column is the name in the source.
            return table.name, column
        present = self._find_column(table, column, earlier)
        return None if present is None else (table.name, present)

    def _declared_before(self, row: Mapping[str, Any]) -> list[Record]:
        """Return the records of a finding's table, first the one that was valid when the finding was recorded."""
        of_table = [record for record in self.known if record.pair[1] == row["table"]]
        held = [record for record in of_table if record.run_id == row["run_id"] or _is_before(record, row["at"])]
        return [*reversed(held), *(record for record in of_table if record not in held)]

    def _find_table(self, name: str, earlier: Sequence[Record]) -> Table | None:
        source = earlier[0].declaration["source"] if earlier else None
        for table in self.pipeline.tables:
            if (table.name == name) if source is None else (table.source == source):
                return table
        return None

    def _find_column(self, table: Table, column: str, earlier: Sequence[Record]) -> str | None:
        sources = next((of for record in earlier if (of := r.sources_of(record.declaration, column))), [])
        if not sources:
            names = {record.pair[1] for record in self.known if record.declaration["source"] == table.source}
            of_table = [each for each in self.taken_up if each.table in names and each.column == column]
            sources = [each.source.casefold() for each in of_table]
        if not sources:
            return column if column in table.column_names else None
        same = [each.name for each in table.columns if each.source.casefold() == sources[0]]
        same += [each.name for each in table.columns if {*sources} & {name.casefold() for name in each.sources}]
        return same[0] if same else None


def _is_before(record: Record, at: datetime) -> bool:
    return record.at is not None and record.at <= at


def follow_names(pipeline: Pipeline, paths: TablePaths, run_id: str) -> None:
    """Give open findings the present names of their tables and columns, and close those of removed ones.

    A finding that was closed because its table or column was removed opens again when that is declared again. This
    excludes faults that a merge or a message would find again. A finding keeps its csn and its evidence. A repeated
    call changes nothing more.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        run_id: the run.
    """
    open_rows, removed = findings.open_findings(paths), _returning(paths)
    if not any(row["table"] for row in (*open_rows, *removed)):
        return
    names = PresentNames.read(pipeline, paths)
    placed = [(row, names.find(row)) for row in open_rows]
    stays = {findings.name_of(row): row for row, present in placed if present == (row["table"], row["column"])}
    moves = [(row, present) for row, present in placed if present != (row["table"], row["column"])]
    moves += [(row, present) for row in removed if (present := names.find(row)) is not None]
    opened = dict[findings.Name, dict[str, Any]]()
    for row, present in sorted(moves, key=lambda move: move[0]["since_csn"] or 0):
        if present is not None:
            moved = {**row, "table": present[0], "column": present[1]}
            there = (opened | stays).get(findings.name_of(moved))
            if there is None or (row["since_csn"] or 0) < (there["since_csn"] or 0):
                opened[findings.name_of(moved)] = moved
    closed = [
        row | {"status": "closed", "evidence": f"{row['evidence']}; {_why(present)}"}
        for row, present in moves
        if findings.name_of(row) not in {*opened, *stays}
    ]
    now = {"run_id": run_id, "at": datetime.now(UTC)}
    findings.append(paths, [row | now for row in (*closed, *opened.values())])


def _why(present: Named | None) -> str:
    """Return why a finding is closed under its former name."""
    return REMOVED if present is None else f"its present name is {'.'.join(filter(None, present))}"


def _returning(paths: TablePaths) -> list[dict[str, Any]]:
    """Return the RETURNING findings of removed tables and columns, as they were while they were open."""
    end = f"; {REMOVED}"
    rows = findings.closed_with(paths, end)
    return [
        row | {"status": "open", "evidence": row["evidence"].removesuffix(end)}
        for row in rows
        if row["code"] in RETURNING
    ]
