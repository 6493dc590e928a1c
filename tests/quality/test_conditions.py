"""SQL and Great Expectations judge by one condition: whatever rows there are, both find the same ones to fail."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import Table

from txloom.config.models.expectations import (
    DeadLetterExpectation,
    DriftExpectation,
    Expectation,
    InvariantExpectation,
    LedgerExpectation,
    StuckExpectation,
    VersionExpectation,
)
from txloom.errors import TxloomError
from txloom.quality.checkpoint import Case, count
from txloom.quality.conditions import AtMost, Few, InSet, NoRows, NotBelow, OfRows
from txloom.quality.verdicts import CheckInput, Verdict, judge
from txloom.storage.checks.check_input import asking, check_input
from txloom.storage.delta.sql import instant_literal

pytestmark = pytest.mark.filterwarnings("default")
"""Great Expectations imports modules that Python deprecates."""
TELLS: dict[str, Any] = {"severity": "warn", "sentence": "It holds.", "hint": "Look."}
CODES = ("row was never seen", "column dropped")
Column = Sequence[Any]
WIDE = st.integers(-(2**63), 2**63 - 1)
DECIMALS = st.decimals(-(10**10), 10**10, places=2)
DOUBLES = st.floats(allow_nan=False)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda at: at.replace(tzinfo=UTC))
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
VERSIONS = {
    "Int64": WIDE,
    "Decimal128(18, 2)": DECIMALS,
    "Float64": DOUBLES,
    'Timestamp(Microsecond, Some("UTC"))': MOMENTS,
    "Utf8": TEXTS,
}


def literal(value: Any) -> str:
    """Return a value as SQL has it."""
    if value is None or isinstance(value, bool | int):
        return "null" if value is None else str(value).lower()
    if isinstance(value, float):
        return f"cast('{value}' as double)"
    if isinstance(value, Decimal):
        return f"cast('{value}' as decimal(18, 2))"
    return instant_literal(value) if isinstance(value, datetime) else "'" + value.replace("'", "''") + "'"


def sql(kind: str, *columns: Column, names: Sequence[str]) -> str:
    """Return SQL for rows that are made of columns of one type."""
    cells = [[f"arrow_cast({literal(value)}, '{kind}')" for value in column] for column in columns]
    rows = ", ".join(f"({', '.join(row)})" for row in zip(*cells, strict=True))
    empty = ", ".join([f"arrow_cast(null, '{kind}')"] * len(columns))
    query = f"select * from (values {rows or f'({empty})'}) as v ({', '.join(names)})"
    return query if rows else f"{query} where false"


def stuck(number: int) -> tuple[Expectation, OfRows]:
    expectation = StuckExpectation(kind="stuck_transactions", id=f"stuck_{number}", older_than="10m", **TELLS)  # type: ignore[arg-type]
    return expectation, AtMost("age_seconds", 600)


def regressed(number: int) -> tuple[Expectation, OfRows]:
    expectation = VersionExpectation(kind="version_regressions", id=f"version_{number}", table="t", **TELLS)
    return expectation, NotBelow("version", "highest")


def looked(expectation: Expectation, condition: OfRows, kind: str, *columns: Column) -> tuple[Expectation, CheckInput]:
    rows = sql(kind, *columns, names=condition.columns)
    return expectation, check_input(expectation, asking({}), rows, condition)


def few(name: str, most: int, rows: int) -> tuple[Expectation, CheckInput, int]:
    expectation = DeadLetterExpectation(kind="dead_letters", id=name, at_most=most, **TELLS)
    case = Case(expectation, lambda: Table.from_pydict({"row": [1] * rows}), Few(most))
    return expectation, CheckInput(rows, rows if Few(most).fails(rows) else 0, case=case), rows if rows > most else 0


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, max_size=8)


@st.composite
def cases(draw: st.DrawFn, number: int) -> tuple[Expectation, CheckInput, int]:
    """Return rows in question, what SQL finds among them, and how many fail by the words of the documentation."""
    kind = draw(st.sampled_from(["stuck", "ledger", "codes", "versions", "few"]))
    if kind == "stuck":
        ages = draw(maybe(st.integers(599, 601) | WIDE))
        return *looked(*stuck(number), "Int64", ages), sum(age is not None and age > 600 for age in ages)
    if kind == "ledger":
        is_given = draw(maybe(st.booleans()))
        ledger = LedgerExpectation(kind="unbalanced_ledger", id=f"ledger_{number}", **TELLS)
        return *looked(ledger, InSet("balanced", (True,)), "Boolean", is_given), sum(each is False for each in is_given)
    if kind == "codes":
        code = draw(maybe(st.sampled_from([*CODES, "it's", ""])))
        drift = DriftExpectation(kind="drift", id=f"drift_{number}", codes=CODES, **TELLS)
        return *looked(drift, InSet("code", CODES, outside=True), "Utf8", code), sum(each in CODES for each in code)
    if kind == "few":
        most, rows = draw(st.integers(0, 3)), draw(st.integers(0, 5))
        return few(f"dead_{number}", most, rows)
    type_ = draw(st.sampled_from(sorted(VERSIONS)))
    pairs = draw(st.lists(st.tuples(*[VERSIONS[type_]] * 2), max_size=8))
    columns = [[pair[side] for pair in pairs] for side in (0, 1)]
    return *looked(*regressed(number), type_, *columns), sum(version < highest for version, highest in pairs)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_rows_there_are_both_find_the_same_ones(data: st.DataObject) -> None:
    drawn = [data.draw(cases(number)) for number in range(12)]
    judgement = judge([(each, case_input) for each, case_input, _ in drawn], suite="any", run_id="r", always=True)
    for expectation, case_input, failing in drawn:
        verdict = judgement.verdicts[expectation.id]
        assert isinstance(verdict, Verdict), (verdict, expectation)
        assert (verdict.success, verdict.failed, case_input.failed) == (failing == 0, failing, failing), expectation
        assert expectation.id in judgement.outcomes


def test_what_is_at_the_limit_holds_by_both() -> None:
    drawn = [
        (*looked(*stuck(1), "Int64", [600, 601, None]), 1),
        (*looked(*regressed(2), "Int64", [5, 5, 4], [5, 4, 5]), 1),
        *[few(f"dead_{rows}", 2, rows) for rows in (2, 3)],
    ]
    judgement = judge([(each, case_input) for each, case_input, _ in drawn], suite="any", run_id="r", always=True)
    for expectation, case_input, failing in drawn:
        verdict = judgement.verdicts[expectation.id]
        assert isinstance(verdict, Verdict), verdict
        assert (verdict.failed, case_input.failed) == (failing, failing), expectation


@pytest.mark.parametrize("keys", [[2**53, 2**53 + 1], ["a", "A"], [datetime(9999, 12, 31), datetime(1, 1, 1)]])
def test_a_query_is_asked_of_the_tables_by_great_expectations_itself(tmp_path: Path, keys: list[Any]) -> None:
    write_deltalake(str(tmp_path / "t"), Table.from_pydict({"id": [*keys, None], "{n}": [1, 2, 3]}))
    ask = asking({"t": DeltaTable(str(tmp_path / "t"))})
    for query, failing in (('select id, "{n}" from t where "{n}" < 3', 2), ("select * from t where id <> id", 0)):
        expectation = InvariantExpectation(kind="invariant", id="own", sql=query, **TELLS)
        case = Case(expectation, lambda: Table.from_pydict({"table": ["t"]}), NoRows(query), ask)
        case_input = CheckInput(3, count(ask, query), case=case)
        judged = judge([(expectation, case_input)], suite="any", run_id="r", always=True)
        assert judged.outcomes["own"].result["observed_value"] == failing
        verdict = judged.verdicts["own"]
        assert isinstance(verdict, Verdict) and verdict.failed == failing


def test_what_sql_overlooks_is_an_error_and_not_a_verdict() -> None:
    expectation, case_input = looked(*stuck(1), "Int64", [601, 5])
    wrong = CheckInput(case_input.checked, 0, case=case_input.case)
    for evidence_, always in ((wrong, True), (CheckInput(2, 2, case=case_input.case), False)):
        verdict = judge([(expectation, evidence_)], suite="any", run_id="r", always=always).verdicts["stuck_1"]
        assert isinstance(verdict, TxloomError) and "Great Expectations 1," in str(verdict)
