"""Look at tables in one snapshot of the source after the other, until nothing that differs is still changing."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from txloom.errors import ConfigurationError, TxloomError
from txloom.steps.audit.audit_scope import Scope
from txloom.steps.audit.compare_table import Compared, Handles, LakeTable, compare
from txloom.steps.audit.outcomes import BEHIND, UNSETTLED, Outcome, joined
from txloom.steps.step import Step
from txloom.storage.checks.audited_rows import EQUAL, NOT_COMPARED
from txloom.storage.databases.audit_source import AuditSource, Moment, TableChanged
from txloom.storage.declarations.shown_tables import ShownTables
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.publishing import reader_holds
from txloom.storage.publishing.reader_holds import Cut
from txloom.storage.targets.row_tables import RowTable

LOG = logging.getLogger(__name__)

ROUNDS = 5
"""How often rows are looked at that change all the time."""
LOOK = 2.0
"""Seconds between two looks at the newest cut."""
LONGEST = timedelta(hours=24)
"""How long vacuum keeps a cut for an audit that died."""


@dataclass(frozen=True)
class _Snapshot:
    """A snapshot of the source, and the cut that is compared with it; is_shown: whether it shows all of the former."""

    moment: Moment
    cut: Cut
    shown: ShownTables
    is_shown: bool


@dataclass
class Looks:
    """The looks of an audit at some tables.

    Args:
        step: the call of the step.
        source: what the lake is compared with.
        scope: the tables.
        until: the moment (`time.monotonic`) up to which cuts are waited for.
        may_lack: whether a table that the database does not have is left out, instead of ending the audit.
        outcomes: by table, what is known of it.
        first: the cut of the first look.
    """

    step: Step
    source: AuditSource
    scope: Scope
    until: float
    may_lack: bool
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    first: Cut | None = None

    def take(self, held: ExitStack) -> None:
        """Compare the tables, and those again that a look could not decide, up to ROUNDS times.

        Raises ConfigurationError where the database has none of the tables. held: keeps the cut of the first look.
        """
        again: dict[str, Handles | None] = dict.fromkeys(each.table.name for each in self.scope.tables)
        for number in range(ROUNDS if self.source.as_of is None else 1):
            if number and any(each.reason for each in self.outcomes.values()):
                time.sleep(LOOK)
            with self._snapshot(again) as snapshot:
                if self.first is None:
                    self.first = held.enter_context(self._held(snapshot.cut, "documents"))
                for row_table in self.scope.tables:
                    if (name := row_table.table.name) in again:
                        look = self._look(row_table, snapshot, again[name])
                        self.outcomes[name] = joined(self.outcomes.get(name), look)
            again = self._undecided(again)
            if not again or not snapshot.is_shown:
                break
        if self.outcomes and all(each.verdict == NOT_COMPARED for each in self.outcomes.values()):
            raise ConfigurationError("; ".join(each.reason for each in self.outcomes.values()))

    def _undecided(self, again: dict[str, Handles | None]) -> dict[str, Handles | None]:
        """Return by table the keys that have to be looked at again; None: all."""
        return {
            name: again[name] if each.reason and not each.compared.in_flight else each.compared.in_flight
            for name, each in self.outcomes.items()
            if name in again and (each.compared.in_flight or (each.reason and each.verdict == UNSETTLED))
        }

    @contextmanager
    def _snapshot(self, again: dict[str, Handles | None]) -> Iterator[_Snapshot]:
        """Begin a snapshot, wait for a cut that shows all that it may have, and keep the cut's files for a block.

        Where no such cut comes in time, it is the newest.
        """
        tables = [row_table.table for row_table in self.scope.tables]
        moment = self.source.begin([table for table in tables if table.name in again])
        self.source.mark()
        cut = self._newest()
        while not (is_shown := cut is not None and self.source.shows(moment, cut.valid_through, tables)):
            if time.monotonic() >= self.until:
                break
            time.sleep(LOOK)
            cut = self._newest()
        if cut is None:
            raise TxloomError(f"{self.step.pipeline.name} has published nothing yet that could be compared")
        with self._held(cut):
            yield _Snapshot(moment, cut, ShownTables(self.step.pipeline, self.step.paths, cut), is_shown)

    def _newest(self) -> Cut | None:
        """Return the newest cut; for files, the first that shows everything up to their csn."""
        if self.source.as_of is None:
            return reader_holds.published(self.step.paths)
        readers = self.step.pipeline.current_tables
        current = [each.current for each in self.scope.tables if each.current in readers]
        retain = self.step.pipeline.maintenance.vacuum.retain
        return reader_holds.first_from(self.step.paths, self.source.as_of, retain, current)

    @contextmanager
    def _held(self, cut: Cut, what: str = "") -> Iterator[Cut]:
        """Keep the files of a cut for a block; what: of the audit reads them, where it holds the cut more than once."""
        reader = f"audit {self.step.run_id} {what}".strip()
        reader_holds.hold(self.step.paths, reader, cut, datetime.now(UTC) + LONGEST)
        try:
            yield cut
        finally:
            reader_holds.release(self.step.paths, reader, cut)

    def _look(self, row_table: RowTable, snapshot: _Snapshot, keys: Handles | None) -> Outcome:
        """Compare a table, or some keys of it, at one snapshot."""
        name, cut, moment, shown = row_table.table.name, snapshot.cut, snapshot.moment, snapshot.shown
        version = shown.version(row_table.current)
        if version is None or (problem := shown.problem_of_rows(row_table)):
            reason = f"cut {cut.cut_id} does not have the table yet" if version is None else problem
            return Outcome(UNSETTLED, Compared(0, [], keys or {}), cut, moment, reason)
        lake = LakeTable(self.step.paths, row_table, version, cut.valid_through)
        try:
            with self.source.reading(row_table.table) as relation:
                seen = compare(self.source, relation, moment, lake, keys)
        except TableChanged as change:
            reason = f"the source's table was changed while it was to be read: {change}"
            LOG.info(f"[audit] {name}: {reason}")
            return Outcome(UNSETTLED, Compared(0, [], keys or {}), cut, moment, reason)
        except ConfigurationError as error:
            if not self.may_lack or self.source.as_of is not None:
                raise
            return Outcome(NOT_COMPARED, cut=cut, moment=moment, reason=str(error).removeprefix(f"{name}: "))
        LOG.info(f"[audit] {name}: {seen.rows} rows, {len(seen.differences)} differ, {len(seen.in_flight)} again")
        notes = self._left_out(row_table, relation.undeclared)
        return Outcome(EQUAL if snapshot.is_shown else BEHIND, seen, cut, moment, not_compared=notes)

    def _left_out(self, row_table: RowTable, undeclared: Sequence[str]) -> tuple[str, ...]:
        """Return sentences about the columns of a table that are not compared."""
        notes = list[str]()
        if undeclared:
            notes.append(f"columns of the source that are not declared: {', '.join(sorted(undeclared))}")
        effective = effective_pipeline(self.step.pipeline, self.step.paths).table(row_table.table.name)
        if evolved := set(effective.column_names) - set(row_table.table.column_names):
            notes.append(f"columns of the lake that are not declared (`evolve`): {', '.join(sorted(evolved))}")
        return tuple(notes)
