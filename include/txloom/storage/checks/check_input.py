"""Check inputs: the rows in question at pinned versions, how many of them fail a condition, and the first of those."""

from collections.abc import Mapping
from functools import partial

import pyarrow as pa
from deltalake import DeltaTable

from txloom.config.models.expectations import Expectation
from txloom.quality.checkpoint import Ask, Case, count
from txloom.quality.conditions import OfRows
from txloom.quality.masking import MOST
from txloom.quality.verdicts import CheckInput
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import sql_name


def asking(tables: Mapping[str, DeltaTable]) -> Ask:
    """Return a function that runs queries over opened tables."""
    return partial(arrow_tables.ask, dict(tables))


def check_input(
    expectation: Expectation, ask: Ask, rows: str, condition: OfRows, *, shown: str = "*", order: str = ""
) -> CheckInput:
    """Return the check input for the rows that a query returns; the sample has those that fail the condition.

    shown, order: columns and order of the sample, as SQL.
    """
    failing = condition.failing(rows)
    failed = count(ask, failing)
    sorted_ = f" order by {order}" if order else ""
    sample = ask(f"select {shown} from ({failing}){sorted_} limit {MOST}") if failed else pa.table({})
    judged = ", ".join(sql_name(name) for name in condition.columns)
    case = Case(expectation, lambda: ask(f"select {judged} from ({rows})"), condition, ask)
    return CheckInput(count(ask, rows), failed, sample.to_pylist(maps_as_pydicts="strict"), case=case)


def listed(tables: Mapping[str, int]) -> pa.Table:
    """Return tables and their versions as rows, which Great Expectations gets beside a query over the tables."""
    return pa.table({"table": list(tables), "version": pa.array(tables.values(), pa.int64())})
