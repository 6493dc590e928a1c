"""audit: compare the lake with the live database at one moment, row by row, and say exactly what differs.

Document tables are compared with the documents that the lake's rows of their members make, at the same cut.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from txloom.config.models.audit import Audit
from txloom.errors import ConfigurationError
from txloom.steps.audit import audit_report
from txloom.steps.audit.audit_scope import Choice, Scope, scope_of
from txloom.steps.audit.compare_documents import DocumentTable
from txloom.steps.audit.declared_source import declared_source
from txloom.steps.audit.looks import Looks
from txloom.steps.audit.outcomes import Outcome, of_documents
from txloom.steps.step import Counts, Step
from txloom.storage.checks.audited_rows import DOCUMENTS, NOT_COMPARED, ROWS
from txloom.storage.databases.audit_source import AuditSource
from txloom.storage.databases.snapshot_folder import SnapshotFolder
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.publishing.reader_holds import Cut
from txloom.storage.targets import schemas


def audit(step: Step, choice: Choice) -> Counts:
    """Compare tables with the database, write what was found to audit_results, and open or close findings.

    Everything is read in one snapshot of the database. Of each key range both sides have the number of rows and the sum
    of digests; rows are read only where these differ. What transactions changed that the snapshot may not have is
    looked at again, in a new snapshot (`looks`). So is a table that a statement touched which a snapshot does not hold
    back, as TRUNCATE. The database gets an empty transaction into its log, and nothing else.

    Returns:
        tables, rows (of the source), documents (document tables), differing, unsettled and behind rows, undecided
        tables, and source_seconds (rounded up).

    Raises:
        ConfigurationError: no database is declared, or it, or the snapshot folder, lacks a table or a column that was
            asked for by name, or all of them.
        SourceUnavailable: the database does not answer, or not in time.
        TxloomError: nothing was published yet.
    """
    declared = step.pipeline.audit
    scope = scope_of(step, choice)
    as_declared = Audit.model_fields["wait"].default if declared is None else declared.wait
    wait = as_declared if choice.wait is None else choice.wait
    until = time.monotonic() + wait.total_seconds()
    with ExitStack() as held:
        with _source(step, choice) as source:
            if isinstance(source, SnapshotFolder) and not choice.tables:
                scope = scope.within(source)
            looks = Looks(step, source, scope, until, may_lack=not choice.tables)
            looks.take(held)
        assert looks.first is not None
        outcomes = looks.outcomes | _documents(step, scope, looks.outcomes, looks.first)
    audit_report.write_results(step, outcomes, source.seconds, choice.snapshot)
    counts = [audit_report.report(step, table, outcome) for table, outcome in outcomes.items()]
    of_rows = [each for each in outcomes.values() if each.kind == ROWS and each.verdict != NOT_COMPARED]
    return {
        "tables": len(of_rows),
        "rows": sum(each.compared.rows for each in of_rows),
        "documents": sum(each.kind == DOCUMENTS for each in outcomes.values()),
        **{name: sum(count[name] for count in counts) for name in ("differing", "unsettled", "behind")},
        "undecided": sum(each.is_undecided and table not in scope.left_out for table, each in outcomes.items()),
        "source_rows": source.rows,
        "source_seconds": int(source.seconds) + 1,
    }


@contextmanager
def _source(step: Step, choice: Choice) -> Iterator[AuditSource]:
    """Open what the lake is compared with."""
    if choice.snapshot is not None:
        yield SnapshotFolder(step.pipeline, choice.snapshot, choice.csn)
        return
    if choice.csn is not None:
        raise ConfigurationError("a csn is that of a snapshot folder: say --snapshot FOLDER with it")
    with declared_source(step.pipeline) as source:
        yield source


def _documents(step: Step, scope: Scope, outcomes: Mapping[str, Outcome], cut: Cut) -> dict[str, Outcome]:
    """Compare document tables at the cut of the first look; also say which tables are left out."""
    made, left_out = dict[str, Outcome](), {**scope.left_out, **scope.incomplete}
    why = left_out | {name: each.reason for name, each in outcomes.items() if each.is_undecided}
    for aggregate in scope.aggregates:
        effective = effective_pipeline(step.pipeline, step.paths)
        seen = DocumentTable(step.paths, effective, aggregate, cut, audit_report.LISTED).compare()
        members = [name for name, _ in schemas.members_of(aggregate)]
        notes = [
            f"the rows of {name} were not compared with the source: {why.get(name, 'the audit was not asked for them')}"
            for name in members
            if name in why or name not in outcomes
        ]
        made[aggregate.current] = of_documents(seen, cut, tuple(notes))
    for name, reason in left_out.items():
        made[name] = Outcome(NOT_COMPARED, cut=cut, reason=reason)
    return made
