"""Choose what an audit compares: the tables, the document tables, and why others are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from txloom.config.models.pipeline import Aggregate
from txloom.errors import ConfigurationError
from txloom.steps.step import Step
from txloom.storage.databases.snapshot_folder import SnapshotFolder
from txloom.storage.declarations.shown_tables import tables_without_history
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import RowTable, row_tables

HAS_NO_KEY = "it has no key, so that its rows cannot be told apart"
IS_INCOMPLETE = "its history is not complete, as its finding says: load a snapshot of it (jobs/load_snapshot.py)"


@dataclass(frozen=True)
class Choice:
    """What a person or a schedule asks for.

    Args:
        tables: names of declared tables, or of document tables, whose members then are compared too; empty: all tables
            that have a key, and are in the database or the snapshot folder. Documents with a member among them are
            compared.
        wait: how long to wait until the lake shows the database's snapshot; None: as declared.
        snapshot: a snapshot folder to compare with, instead of the declared database.
        csn: as of which its rows are; None: of an extract of a date, the date's.
    """

    tables: Sequence[str] = ()
    wait: timedelta | None = None
    snapshot: str | None = None
    csn: int | None = None


@dataclass(frozen=True)
class Scope:
    """What is compared.

    Args:
        tables: whose rows are compared with the source.
        aggregates: whose documents are compared with the rows of their members.
        left_out: by table, why it is never compared, or not with this source.
        incomplete: by table, why it cannot be compared yet.
    """

    tables: Sequence[RowTable]
    aggregates: Sequence[Aggregate]
    left_out: Mapping[str, str] = field(default_factory=dict)
    incomplete: Mapping[str, str] = field(default_factory=dict)

    def within(self, source: SnapshotFolder) -> "Scope":
        """Leave out the tables that a snapshot folder does not have."""
        there = [row_table for row_table in self.tables if row_table.table.name in source.tables]
        gone = {row_table.table.name for row_table in self.tables} - {row_table.table.name for row_table in there}
        lacking = dict.fromkeys(sorted(gone), f"it has no folder in {source.path}")
        return replace(self, tables=there, left_out={**self.left_out, **lacking})


def scope_of(step: Step, choice: Choice) -> Scope:
    """Return what is compared; raises ConfigurationError for a name that no table and no document table has."""
    known = {row_table.table.name: row_table for row_table in row_tables(step.pipeline)}
    aggregates = {aggregate.current: aggregate for aggregate in step.pipeline.targets.aggregates}
    if unknown := sorted(set(choice.tables) - known.keys() - aggregates.keys()):
        has = ", ".join(sorted({*known, *aggregates}))
        raise ConfigurationError(f"no table {', '.join(unknown)} is in the lake; it has {has}")
    members = {name: {table for table, _ in schemas.members_of(each)} for name, each in aggregates.items()}
    named = set(choice.tables or known) - (aggregates.keys() - known.keys())
    chosen = named.union(*(members[name] for name in choice.tables if name in aggregates))
    keyless = {name: HAS_NO_KEY for name in sorted(chosen) if known[name].table.insert_only}
    without_history = tables_without_history(step.pipeline, step.paths)
    incomplete = {name: IS_INCOMPLETE for name in without_history if name in chosen and name not in keyless}
    return Scope(
        [known[name] for name in sorted(chosen) if name not in {*keyless, *incomplete}],
        [aggregates[name] for name in sorted(aggregates) if members[name] & chosen or name in choice.tables],
        keyless,
        incomplete,
    )
