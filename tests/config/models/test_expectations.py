"""The kinds of expectations: what they declare, and each mistake with its whole message."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest

from txloom.cli import main
from txloom.config import load
from txloom.config.models.expectations import DriftExpectation, FindingCode, GreatExpectation, InvariantExpectation
from txloom.quality.findings import HINTS

Refused = Callable[..., str]
Declared = Callable[..., Path]
MAINTENANCE = "maintenance:\n"
END = "severity: warn, sentence: S., hint: H."


def declares(*expectations: str) -> tuple[str, str]:
    """Put expectations, each of one line, behind those that stand in line 40 to 53."""
    return MAINTENANCE, "".join(f"  - {{id: own_{i}, {END}, {each}}}\n" for i, each in enumerate(expectations)) + (
        MAINTENANCE
    )


def great(name: str, *arguments: str, table: str = "orders", more: str = "") -> str:
    given = f", arguments: {{{', '.join(arguments)}}}" if arguments else ""
    return f"kind: great_expectation, table: {table}, expectation: {name}{given}{more}"


def test_every_kind_is_declared_with_few_words(declared: Declared) -> None:
    file = declared(
        declares(
            "kind: dead_letters",
            "kind: unbalanced_ledger",
            "kind: version_regressions, table: items",
            "kind: valid_through_age, older_than: 1h",
            "kind: drift, codes: [row was never seen]",
            great(
                "ExpectColumnValuesToNotBeNull", "column: total_amount", "mostly: 0.99", more=", where: order_id > 7"
            ),
            "kind: invariant, sql: select * from basket_current where total_amount < 0",
        )
    )
    _, _, dead, ledger, version, age, drift, great_one, invariant = load(file).expectations
    assert (dead.at_most, ledger.kind, version.table, age.older_than) == (  # type: ignore[union-attr]
        0,
        "unbalanced_ledger",
        "items",
        timedelta(hours=1),
    )
    assert isinstance(drift, DriftExpectation) and drift.codes == ("row was never seen",)
    assert isinstance(great_one, GreatExpectation) and great_one.where == "order_id > 7"
    assert great_one.arguments == {"column": "total_amount", "mostly": 0.99}
    assert isinstance(invariant, InvariantExpectation)


def test_the_codes_of_findings_are_those_that_the_doctor_finds() -> None:
    assert set(get_args(FindingCode)) == set(HINTS)


@pytest.mark.parametrize(
    ("expectation", "message"),
    [
        ("kind: dead_letters, at_most: -1", "at_most: found -1, expected a whole number."),
        ("kind: version_regressions", "table: found nothing, expected a mirrored table that declares its version."),
        (
            "kind: version_regressions, table: orders",
            "table: found 'orders', expected a table that declares its version. Say with `version` which of its "
            "columns counts the changes of a row.",
        ),
        (
            "kind: version_regressions, table: itmes",
            "table: found 'itmes', expected a watched table. Did you mean 'items'?",
        ),
        (
            "kind: snapshot_age, older_than: 2d",
            "kind: found 'snapshot_age' for the format goldengate, expected source.format: snapshots. Elsewhere "
            "valid_through_age says how old the tables are.",
        ),
        (
            "kind: drift, codes: [row never seen]",
            "codes[0]: found 'row never seen', expected column added, column dropped, column renamed, rows changed "
            "without events, row was never seen, key is not unique, transactions are grouped, deletes are not counted, "
            "operations are not counted, no images before, short names collide, csn jumped back, transaction id came "
            "again, rebuilt from two producer runs, nulls are left out, records were lost, column is not in the "
            "extract, table is not in the extract, document has several children of one, came too late for its "
            "history, file cannot be read, counts changed after release, two producer runs overlap, snapshot was taken "
            "twice, rows were read again, differs from the source, documents differ from their rows, history is not "
            "complete or snapshot request makes no progress. Did you mean 'row was never seen'?",
        ),
        (
            "kind: great_expectation, expectation: ExpectColumnValuesToNotBeNull, arguments: {column: order_id}",
            "table: found nothing, expected a current table, of a mirror or of documents.",
        ),
        (
            "kind: great_expectation, table: orders",
            "expectation: found nothing, expected the class of Great Expectations, such as "
            "ExpectColumnValuesToNotBeNull.",
        ),
        (
            great("ExpectColumnValuesToNotBeNul", "column: order_id"),
            "expectation: found 'ExpectColumnValuesToNotBeNul', expected an expectation of Great Expectations that "
            "judges a table. Did you mean 'ExpectColumnValuesToNotBeNull'?",
        ),
        (
            great("UnexpectedRowsExpectation", "query: select 1"),
            "expectation: found 'UnexpectedRowsExpectation', expected an expectation of Great Expectations that judges "
            "a table. A query of your own is an expectation of kind invariant.",
        ),
        (
            great("ExpectColumnValuesToNotBeNull"),
            "arguments.column: found nothing, expected what ExpectColumnValuesToNotBeNull needs.",
        ),
        (
            great("ExpectColumnValuesToNotBeNull", "column: order_id", "mostyl: 0.5"),
            "arguments.mostyl: found an unknown argument, expected column or mostly. Did you mean 'mostly'?",
        ),
        (
            great("ExpectColumnValuesToNotBeNull", "column: order_id", "mostly: all"),
            "arguments.mostly: found 'all', expected number, as ExpectColumnValuesToNotBeNull takes.",
        ),
        (
            great("ExpectColumnValuesToNotBeNull", "column: ordr_id"),
            "arguments.column: found 'ordr_id', expected a column of orders. Did you mean 'order_id'?",
        ),
        (
            great("ExpectCompoundColumnsToBeUnique", "column_list: [order_id, price]", table="basket_current"),
            "arguments.column_list[1]: found 'price', expected a column of basket_current.",
        ),
        (
            great("ExpectColumnValuesToNotBeNull", "column: order_id", table="basket"),
            "table: found 'basket', expected a current table, of a mirror or of documents.",
        ),
        (
            "kind: invariant",
            "sql: found nothing, expected a query over the current tables, by their names, that returns the rows that "
            "fail.",
        ),
        (
            "kind: invariant, sql: delete from orders",
            "sql: found 'delete from orders', expected a query that begins with select or with.",
        ),
        (
            "kind: invariant, sql: select * from order_stream",
            "sql: found 'select * from order_stream', expected a query over current tables. There are orders, items "
            "and basket_current.",
        ),
    ],
)
def test_a_mistake_is_refused_with_file_and_line(refused: Refused, expectation: str, message: str) -> None:
    assert refused(*declares(expectation)) == f"shop.yaml:54: expectations[2].{message}"


def test_versions_are_followed_in_the_history_of_a_mirror(refused: Refused) -> None:
    mirror = "    - table: items\n      zorder: [item_no]\n"
    assert refused(mirror, "", declares("kind: version_regressions, table: items")) == (
        "shop.yaml:52: expectations[2].table: found 'items', expected a mirrored table. Its history is followed. "
        "Add it to targets.mirrors."
    )


def test_a_version_without_a_value_is_not_declared(refused: Refused) -> None:
    assert refused("version: item_no", "version:", declares("kind: version_regressions, table: items")) == (
        "shop.yaml:54: expectations[2].table: found 'items', expected a table that declares its version. Say with "
        "`version` which of its columns counts the changes of a row."
    )


def test_nothing_is_said_of_a_limit_inside_of_expectations_that_are_no_list(refused: Refused) -> None:
    first, second = "  - kind: orphans", "  - kind: stuck_transactions"
    mapping = ((each, each.replace("- kind", f"{name}:\n    kind")) for each, name in ((first, "a"), (second, "b")))
    changes = [*mapping, ("older_than: 10m", "older_than: 10 minutes")]
    assert refused(*changes[0], *changes[1:]) == "shop.yaml:39: expectations: found a mapping, expected a list."


OVER_TARGETS = (
    great("ExpectColumnValuesToNotBeNull", "column: order_id", table="basket_current"),
    "kind: invariant, sql: select * from basket_current",
    "kind: version_regressions, table: items",
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("    - name: basket\n      root", "    - root"),
            "shop.yaml:29: targets.aggregates[0].name: found nothing, expected the name of the aggregate.",
        ),
        (
            ("name: basket", "name: bas-ket"),
            "shop.yaml:29: targets.aggregates[0].name: found 'bas-ket', expected a name of letters, digits and "
            "underscores, beginning with a letter.",
        ),
        (
            ("  mirrors:\n    - orders\n    - table: items\n      zorder: [item_no]", "  mirrors: items"),
            "shop.yaml:35: targets.mirrors: found 'items', expected a list. Write [items].",
        ),
    ],
)
def test_nothing_is_said_of_expectations_on_a_target_that_is_refused(
    refused: Refused, change: tuple[str, str], message: str
) -> None:
    assert refused(*change, declares(*OVER_TARGETS)) == message


@pytest.mark.parametrize(
    "named",
    [
        ("    - orders\n", "    - table: orders\n      current: ${SHOP_NAME}_current\n"),
        ("- name: basket", "- name: basket\n      current: ${SHOP_NAME}_current"),
        ("- name: basket", "- name: ${SHOP_NAME}"),
    ],
)
def test_a_current_table_out_of_the_environment_goes_by_its_value_and_is_shown_as_the_file_has_it(
    declared: Declared, refused: Refused, monkeypatch: pytest.MonkeyPatch, named: tuple[str, str]
) -> None:
    monkeypatch.setenv("SHOP_NAME", "s3cret")
    right = great("ExpectColumnValuesToNotBeNull", "column: order_id", table="s3cret_current")
    query = "kind: invariant, sql: select * from s3cret_current"
    assert len(load(declared(named, declares(right, query))).expectations) == 4
    wrong = (
        right.replace("s3cret_current", "s3crets_current"),
        right.replace("column: order_id", "column: total"),
        "kind: invariant, sql: select 1",
    )
    unknown_table, unknown_column, no_table = refused(*named, declares(*wrong)).splitlines()
    assert "Did you mean 's3cret_current'?" not in unknown_table
    assert unknown_column.endswith("found 'total', expected a column of ${SHOP_NAME}_current.")
    assert "${SHOP_NAME}_current" in no_table and "s3cret" not in no_table


def test_great_expectations_judges_on_failure_unless_always_is_declared(declared: Declared, refused: Refused) -> None:
    assert load(declared()).judge == "on_failure"
    assert load(declared((MAINTENANCE, f"judge: always\n{MAINTENANCE}"))).judge == "always"
    for wrong in ("never", "true", "[always]"):
        message = refused(MAINTENANCE, f"judge: {wrong}\n{MAINTENANCE}")
        assert re.match(r"shop\.yaml:54: judge: found .*, expected on_failure or always\.", message), message


def test_a_column_that_the_source_may_add_is_not_refused(declared: Declared) -> None:
    evolving = (
        "    key: [order_id]\n  - name: items",
        "    key: [order_id]\n    undeclared_columns: evolve\n  - name: items",
    )
    file = declared(evolving, declares(great("ExpectColumnValuesToNotBeNull", "column: gift_note")))
    assert load(file).expectations[2].id == "own_0"


def test_what_the_environment_holds_is_remembered_so_that_no_report_repeats_it(
    declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cret-token")
    file = declared(("path: inbox", "path: ${SHOP_INBOX:-inbox}/${SHOP_TOKEN}"))
    assert load(file).referenced == {"s3cret-token"}


def test_sql_that_cannot_be_planned_is_refused_by_check_at_its_line(
    declared: Declared, capsys: pytest.CaptureFixture[str]
) -> None:
    file = declared(
        declares(
            "kind: invariant, sql: select order_idd from orders",
            "kind: invariant, sql: select o.order_id from basket_current o where cardinality(o.items) > 9",
            great("ExpectColumnValuesToNotBeNull", "column: order_id", more=", where: itm > 7", table="items"),
        )
    )
    assert main(["check", str(file)]) == 2
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(
        "shop.yaml:54: expectations[2].sql: expectation own_0: its SQL is refused: Schema error: No field named "
        "order_idd. Did you mean 'orders.order_id'?"
    )
    assert said[1].startswith(
        "shop.yaml:56: expectations[4].where: expectation own_2: its SQL is refused: Schema error: No field named itm."
    )
    assert said[2] == "shop.yaml: refused, 2 problems"
