"""What extracts lack or have in addition: undeclared columns, declared ones that no row has, and whole tables."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from txloom.config.models.pipeline import Pipeline
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.steps.landing.internal_transaction import InternalTransaction
from txloom.steps.schema_drift import added
from txloom.steps.settling.present_findings import PresentNames
from txloom.steps.snapshots.extract_diff import Compared
from txloom.storage.checks import findings
from txloom.storage.declarations.undeclared_columns import Undeclared, columns_to_adopt, record_adopted, with_columns
from txloom.storage.paths import TablePaths

Results = Mapping[str, Compared]


def take_up(transaction: InternalTransaction, paths: TablePaths, results: Results, run_id: str) -> Pipeline | None:
    """Let tables take up undeclared columns of their extracts; return the pipeline with them, None without any.

    A finding for each is recorded. A repeated call changes nothing more.

    Args:
        transaction: the transaction that the extracts become.
        paths: the tables of the pipeline.
        results: by table, the result of the comparison.
        run_id: the run.
    """
    pipeline = transaction.pipeline
    new = columns_to_adopt(pipeline, paths, _undeclared(transaction, results))
    if not new:
        return None
    findings.record(paths, [added(pipeline, *each) for each in new], run_id)
    record_adopted(paths, new)
    return with_columns(pipeline, [(each.table, column, each.source) for each, column in new])


def note_columns(transaction: InternalTransaction, paths: TablePaths, results: Results, run_id: str) -> None:
    """Record undeclared columns that no table takes up, and declared ones that no row of an extract has.

    The findings of those that an extract has again are closed. A repeated call changes nothing more.

    Args:
        transaction: the transaction that the extracts became.
        paths: the tables of the pipeline.
        results: by table, the result of the comparison.
        run_id: the run.
    """
    observed = [added(transaction.pipeline, each) for each in _undeclared(transaction, results)]
    for table, result in results.items():
        if result.rows:
            gone = set(transaction.pipeline.table(table).column_names) - result.columns
            observed += [_gone(transaction, table, column) for column in sorted(gone)]
    findings.record(paths, observed, run_id)
    back = [
        row
        for row, table, column in _open(transaction, paths, f.NOT_EXTRACTED)
        if table in results and column in results[table].columns
    ]
    findings.close(paths, back, run_id, f"{transaction.xid} has it")


def note_tables(
    transaction: InternalTransaction, paths: TablePaths, results: Results, without: Collection[str], run_id: str
) -> None:
    """Record tables that a date was compared without; close the findings of those that it has an extract of.

    A repeated call changes nothing more.

    Args:
        transaction: the transaction that the extracts became.
        paths: the tables of the pipeline.
        results: by table, the result of the comparison.
        without: the tables that have no extract of the date.
        run_id: the run.
    """
    evidence = f"{transaction.xid} was compared without it: its rows are those of an earlier date"
    observed = [
        Finding(f.TABLE_NOT_EXTRACTED, table, None, transaction.csn, transaction.xid, evidence)
        for table in sorted(without)
    ]
    findings.record(paths, observed, run_id)
    back = [row for row, table, _ in _open(transaction, paths, f.TABLE_NOT_EXTRACTED) if table in results]
    findings.close(paths, back, run_id, f"{transaction.xid} has it")


def _open(
    transaction: InternalTransaction, paths: TablePaths, code: str
) -> Iterator[tuple[dict[str, Any], str, str | None]]:
    """Yield the open findings of a code with their present table and column, except those of removed ones.

    A date may be compared before the merge that follows an edit. Only that merge gives findings their present names.
    """
    known = [row for row in findings.open_findings(paths) if row["code"] == code]
    names = PresentNames.read(transaction.pipeline, paths) if known else None
    for row in known:
        table, column = (names.find(row) if names is not None else None) or (None, None)
        if table is not None:
            yield row, table, column


def _undeclared(transaction: InternalTransaction, results: Results) -> list[Undeclared]:
    """Return the undeclared columns of extracts."""
    csn, xid = transaction.csn, transaction.xid
    return [
        Undeclared(table, name, csn, xid) for table, result in results.items() for name in sorted(result.undeclared)
    ]


def _gone(transaction: InternalTransaction, table: str, column: str) -> Finding:
    return Finding(f.NOT_EXTRACTED, table, column, transaction.csn, transaction.xid, "no row of the extract has it")
