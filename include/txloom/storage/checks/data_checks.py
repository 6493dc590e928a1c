"""Check inputs on the data: rows of pinned Delta versions, read without Spark."""

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
from deltalake import DeltaTable

from txloom.config import names
from txloom.config.models.expectations import (
    DeadLetterExpectation,
    DriftExpectation,
    Expectation,
    GreatExpectation,
    InvariantExpectation,
    LedgerExpectation,
    OrphanExpectation,
    SnapshotAgeExpectation,
    StuckExpectation,
    ValidThroughExpectation,
    VersionExpectation,
)
from txloom.config.models.pipeline import Pipeline
from txloom.config.validation.expectation_checks import mentions
from txloom.errors import ConfigurationError
from txloom.quality.checkpoint import Case, count
from txloom.quality.conditions import NoRows
from txloom.quality.masking import MOST
from txloom.quality.verdicts import CheckInput
from txloom.storage.checks.check_input import asking, listed
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import sql_name
from txloom.storage.paths import TablePaths
from txloom.storage.stores.delta_tables import create_table, table_at
from txloom.storage.targets import schemas

Versions = Mapping[str, int]
SYSTEM_TABLES: dict[type, tuple[str, ...]] = {
    StuckExpectation: (names.PENDING_TRANSACTIONS,),
    DeadLetterExpectation: (names.DEAD_LETTERS, names.DISMISSALS, names.TRANSACTIONS),
    LedgerExpectation: (names.LEDGER,),
    SnapshotAgeExpectation: (names.TRANSACTIONS,),
    DriftExpectation: (names.FINDINGS,),
}
"""The system tables that expectations on the pipeline itself read, by kind."""
OF_COLUMNS = ("ExpectTableColumn", "ExpectColumnToExist")
"""Prefixes of expectations that judge the columns of a table and no row."""
REFUSED = re.compile(
    "Schema error|[Dd]uring planning|SQL error|not implemented|Optimizer rule|Arrow error|type_coercion|Execution error"
)
"""DataFusion's messages for a query that it cannot plan, or for values that it cannot compute with; values are masked.
"""


def current_of(pipeline: Pipeline, table: str) -> str:
    """Return the name of the current table of a watched table: its mirror's, or its row table."""
    declared = {mirror.table: mirror.current for mirror in pipeline.targets.mirrors}
    return declared.get(table, names.row_store(table))


def tables_of(pipeline: Pipeline, expectation: Expectation) -> Iterable[str]:
    """Return the tables that an expectation reads."""
    if isinstance(expectation, OrphanExpectation):
        return [current_of(pipeline, name) for name in (expectation.child, expectation.parent)]
    if isinstance(expectation, VersionExpectation):
        return [history_of(pipeline, expectation.table)]
    if isinstance(expectation, ValidThroughExpectation):
        return pipeline.current_tables
    if isinstance(expectation, GreatExpectation):
        return [expectation.table]
    if isinstance(expectation, InvariantExpectation):
        return [name for name in pipeline.current_tables if mentions(expectation.sql, name)]
    return SYSTEM_TABLES[type(expectation)]


def history_of(pipeline: Pipeline, table: str) -> str:
    """Return the name of the history of a mirrored table."""
    return next(mirror.history for mirror in pipeline.targets.mirrors if mirror.table == table)


def orphans(pipeline: Pipeline, paths: TablePaths, expectation: OrphanExpectation, at: Versions) -> CheckInput:
    """Return the child rows that name a parent which does not exist; one whose parent key is null names none."""
    child, parent = (current_of(pipeline, name) for name in (expectation.child, expectation.parent))
    if child not in at or parent not in at:
        return CheckInput(0)
    key = pipeline.table(expectation.parent).key
    same = " and ".join(
        f'c."{child_column}" = p."{name}"' for child_column, name in zip(expectation.parent_key, key, strict=True)
    )
    named = " and ".join(f'c."{child_column}" is not null' for child_column in expectation.parent_key)
    child_key = pipeline.table(expectation.child).key
    shown = dict.fromkeys([*child_key, *expectation.parent_key])
    columns = ", ".join(f'c."{name}"' for name in [*shown, "_txloom_csn", "_txloom_xid"])
    lost = f'select {columns} from c left join p on {same} where {named} and p."{key[0]}" is null'
    tables = {"c": child, "p": parent}
    ask = asking({alias: table_at(paths.table(name), version=at[name]) for alias, name in tables.items()})
    order = ", ".join(f'c."{name}"' for name in child_key)
    failed = count(ask, lost)
    sample = ask(f"{lost} order by {order} limit {MOST}").to_pylist() if failed else []
    case = Case(expectation, lambda: listed(at), NoRows(lost), ask)
    return CheckInput(count(ask, f"select 1 as row from c where {named}"), failed, sample, case=case)


def rows_of(pipeline: Pipeline, paths: TablePaths, expectation: GreatExpectation, at: Versions) -> CheckInput:
    """Return the rows of a current table that are judged: the columns that arguments name, and the key."""
    schema = schema_of(pipeline, expectation.table)
    if expectation.table not in at:
        return CheckInput(0, case=Case(expectation, schema.empty_table))
    table = table_at(paths.table(expectation.table), version=at[expectation.table])
    has = arrow_tables.schema_of(table).names
    of_columns = expectation.expectation.startswith(OF_COLUMNS)
    key = [name for name in _key(pipeline, expectation.table) if name in has]
    columns_read = has if of_columns else dict.fromkeys([*key, *_named(expectation, has)])
    columns = ", ".join(sql_name(name) for name in columns_read)
    query = f"select {columns} from t" + (f" where ({expectation.where}\n)" if expectation.where else "")
    query += " limit 0" if of_columns else ""
    rows = _run_query(expectation, {"t": table}, query)
    return CheckInput(rows.num_rows, case=Case(expectation, lambda: rows))


def _named(expectation: GreatExpectation, has: list[str]) -> list[str]:
    """Return the columns of a table that the arguments name."""
    given = expectation.arguments
    named = [given.get(name) for name in ("column", "column_A", "column_B")]
    listed = given.get("column_list") or ()
    return [name for name in (*named, *listed) if name in has]


def _root(pipeline: Pipeline, current: str) -> str:
    """Return the watched table whose rows a current table has: a mirror's, or an aggregate's root."""
    roots = {each.current: each.root for each in pipeline.targets.aggregates}
    return (roots | {each.current: each.table for each in pipeline.targets.mirrors})[current]


def _key(pipeline: Pipeline, current: str) -> tuple[str, ...]:
    return pipeline.table(_root(pipeline, current)).key or names.POSITION


def schema_of(pipeline: Pipeline, current: str) -> pa.Schema:
    """Return the declared schema of a current table that readers see."""
    for aggregate in pipeline.targets.aggregates:
        if aggregate.current == current:
            return schemas.document_schema(pipeline, aggregate)
    table = next(mirror.table for mirror in pipeline.targets.mirrors if mirror.current == current)
    return schemas.current_schema(pipeline.table(table))


def violations(pipeline: Pipeline, paths: TablePaths, expectation: InvariantExpectation, at: Versions) -> CheckInput:
    """Return the rows that a query returns; raises ConfigurationError where it cannot be run."""
    tables_read = list(tables_of(pipeline, expectation))
    query = bare(expectation.sql)
    if len(at) < len(tables_read):
        plan(pipeline, expectation)
        return CheckInput(0)
    tables = {name: table_at(paths.table(name), version=at[name]) for name in tables_read}
    ask = partial(_run_query, expectation, tables)
    failed = count(ask, query)
    checked = sum(count(asking({"t": each}), "select 1 as row from t") for each in tables.values())
    with _refusing(expectation):
        sample = arrow_tables.first(tables, query, MOST) if failed else pa.table({})
    case = Case(expectation, lambda: listed(at), NoRows(query), ask)
    return CheckInput(checked, failed, sample.to_pylist(maps_as_pydicts="lossy"), case=case)


def plan(pipeline: Pipeline, expectation: Expectation) -> None:
    """Run the SQL of an expectation on empty tables; raises ConfigurationError where it is refused.

    Nothing is run where the source may add columns: only the tables themselves have those.
    """
    if isinstance(expectation, GreatExpectation) and expectation.where is not None:
        tables_read, query = [expectation.table], f'select * from "{expectation.table}" where ({expectation.where}\n)'
    elif isinstance(expectation, InvariantExpectation):
        tables_read = list(tables_of(pipeline, expectation))
        query = f"select * from (\n{bare(expectation.sql)}\n)"
    else:
        return
    if any(pipeline.table(name).undeclared_columns == "evolve" for name in map(partial(_root, pipeline), tables_read)):
        return
    with tempfile.TemporaryDirectory() as folder:
        tables = {
            name: create_table(f"{folder}/{name}", schema_of(pipeline, name), mode="ignore") for name in tables_read
        }
        _run_query(expectation, tables, query)


def bare(sql: str) -> str:
    """Return a query without the semicolon at its end.

    >>> bare("select 1 ; ")
    'select 1'
    """
    return re.sub(r"[;\s]+$", "", sql)


def _run_query(expectation: Expectation, tables: Mapping[str, DeltaTable], query: str) -> pa.Table:
    with _refusing(expectation):
        return arrow_tables.ask(tables, query)


@contextmanager
def _refusing(expectation: Expectation) -> Iterator[None]:
    """Raise ConfigurationError for errors of DataFusion that are about an expectation's SQL; other errors pass."""
    try:
        yield
    except Exception as error:
        if REFUSED.search(str(error)) is None:
            raise
        message = " ".join(str(error).replace("datafusion.public.", "").split())
        message = re.sub(r"'[^']*'", "'...'", message) if "Arrow error" in message else message
        raise ConfigurationError(f"expectation {expectation.id}: its SQL is refused: {message[:300]}") from None
