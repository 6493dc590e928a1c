"""Evidence for expectations: rows in question at pinned versions, how many fail a condition, and the first of those."""

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
    """Return what answers queries over opened tables."""
    return partial(arrow_tables.ask, dict(tables))


def check_input(
    expectation: Expectation, ask: Ask, rows: str, condition: OfRows, *, shown: str = "*", order: str = ""
) -> CheckInput:
    """Return evidence of rows that a query names: all of them are looked at, those that fail the condition are shown.

    shown, order: of those, which columns and in which order, as SQL has it.
    """
    failing = condition.failing(rows)
    failed = count(ask, failing)
    sorted_ = f" order by {order}" if order else ""
    sample = ask(f"select {shown} from ({failing}){sorted_} limit {MOST}") if failed else pa.table({})
    judged = ", ".join(sql_name(name) for name in condition.columns)
    case = Case(expectation, lambda: ask(f"select {judged} from ({rows})"), condition, ask)
    return CheckInput(count(ask, rows), failed, sample.to_pylist(maps_as_pydicts="strict"), case=case)


def listed(tables: Mapping[str, int]) -> pa.Table:
    """Return tables and their versions as rows: what Great Expectations is shown beside a query over them."""
    return pa.table({"table": list(tables), "version": pa.array(tables.values(), pa.int64())})
