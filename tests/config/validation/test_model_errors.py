"""The likeliest mistakes in a value, each with its whole message: the message is the product."""

from collections.abc import Callable
from pathlib import Path

import pytest

Refused = Callable[..., str]
Declared = Callable[..., Path]
KINDS = (
    "orphans, stuck_transactions, dead_letters, unbalanced_ledger, version_regressions, valid_through_age, "
    "snapshot_age, drift, great_expectation or invariant"
)


def test_an_unknown_key_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("patience: 30m", "patiance: 30m") == (
        "shop.yaml:10: completeness.patiance: found an unknown key,"
        " expected rule, patience, idle_after, suspects, max_rows or complete_now. Did you mean 'patience'?"
    )


def test_a_key_by_another_systems_name_is_one_mistake_not_two(refused: Refused) -> None:
    assert refused("    key: [order_id]\n", "    primary_key: [order_id]\n") == (
        "shop.yaml:18: tables[0].primary_key: found an unknown key, expected name, source, columns, key,"
        " version, undeclared_columns or dropped_columns. Did you mean 'key'?"
    )


def test_an_unknown_key_near_nothing_lists_the_known_ones(refused: Refused) -> None:
    assert refused("  rule: counts", "  rule: counts\n  colour: red") == (
        "shop.yaml:10: completeness.colour: found an unknown key, "
        "expected rule, patience, idle_after, suspects, max_rows or complete_now."
    )


def test_a_missing_key_says_what_belongs_there(refused: Refused) -> None:
    assert refused("    key: [order_id]\n", "") == (
        "shop.yaml:12: tables[0].key: found nothing, expected a list of the columns that identify a row,"
        " such as [order_id]."
    )


def test_a_missing_section_says_its_keys(refused: Refused) -> None:
    assert refused("completeness:\n  rule: counts\n  patience: 30m\n", "") == (
        "shop.yaml:1: completeness: found nothing, expected a mapping with rule, patience, idle_after, suspects, "
        "max_rows and complete_now."
    )


def test_a_section_without_content_says_its_keys(refused: Refused) -> None:
    assert refused("completeness:\n  rule: counts\n  patience: 30m\n", "completeness:\n") == (
        "shop.yaml:8: completeness: found nothing, expected a mapping with rule, patience, idle_after, suspects, "
        "max_rows and complete_now."
    )


def test_a_duration_needs_a_unit(refused: Refused) -> None:
    assert refused("patience: 30m", "patience: 30") == (
        "shop.yaml:10: completeness.patience: found 30, expected a duration such as 30s, 15m, 2h or 7d. "
        "A number alone does not say its unit."
    )


def test_a_duration_in_words_is_understood_and_corrected(refused: Refused) -> None:
    assert refused("patience: 30m", "patience: 30 minutes") == (
        "shop.yaml:10: completeness.patience: found '30 minutes', expected a duration such as 30s, 15m, "
        "2h or 7d. Did you mean '30m'?"
    )


def test_a_negative_patience_is_refused(refused: Refused) -> None:
    assert refused("patience: 30m", "patience: -30m") == (
        "shop.yaml:10: completeness.patience: found '-30m', expected a duration such as 30s, 15m, 2h or 7d."
    )


def test_not_a_number_is_no_patience(refused: Refused) -> None:
    assert refused("patience: 30m", "patience: .nan") == (
        "shop.yaml:10: completeness.patience: found nan, expected a duration such as 30s, 15m, 2h or 7d."
    )


def test_no_patience_at_all_is_refused(refused: Refused) -> None:
    assert refused("patience: 30m", "patience: 0s") == (
        "shop.yaml:10: completeness.patience: found '0s', expected a duration from 1s to 3650d."
    )


def test_a_patience_beyond_ten_years_is_refused(refused: Refused) -> None:
    assert refused("patience: 30m", "patience: 99999d") == (
        "shop.yaml:10: completeness.patience: found '99999d', expected a duration from 1s to 3650d."
    )


def test_an_unknown_rule_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("rule: counts", "rule: count") == (
        "shop.yaml:9: completeness.rule: found 'count', expected counts, markers, progress or single. "
        "Did you mean 'counts'?"
    )


def test_an_unknown_format_lists_the_known_ones(refused: Refused) -> None:
    assert refused("format: goldengate", "format: debesium") == (
        "shop.yaml:4: source.format: found 'debesium', expected goldengate, debezium, wal2json, change_events, "
        "change_sets or snapshots. Did you mean 'debezium'?"
    )


def test_a_single_key_column_is_still_a_list(refused: Refused) -> None:
    assert refused("key: [order_id]", "key: order_id") == (
        "shop.yaml:18: tables[0].key: found 'order_id', expected a list. Write [order_id]."
    )


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("''", "''"),
        ("5", "5"),
        ("", "nothing"),
        ("{}", "an empty mapping"),
        ('"${KEY}"', "'${KEY}' (its value is not shown)"),
    ],
)
def test_what_cannot_stand_in_a_list_is_not_proposed_as_one(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, given: str, shown: str
) -> None:
    monkeypatch.setenv("KEY", "order_id")
    assert refused("key: [order_id]", f"key: {given}") == (
        f"shop.yaml:18: tables[0].key: found {shown}, expected a list."
    )


def test_a_text_too_long_for_a_message_is_not_proposed_as_a_list(refused: Refused) -> None:
    assert refused("key: [order_id]", f"key: {'k' * 61}") == (
        f"shop.yaml:18: tables[0].key: found '{'k' * 57}...', expected a list."
    )


def test_a_key_needs_a_column(refused: Refused) -> None:
    assert refused("key: [order_id]", "key: []") == (
        "shop.yaml:18: tables[0].key: found an empty list, expected at least one entry."
    )


def test_a_table_needs_columns(refused: Refused) -> None:
    assert refused(
        "    columns:\n      order_id: long\n      total_amount: decimal(20,4)\n      tags: array<string>\n",
        "    columns: {}\n",
    ) == ("shop.yaml:14: tables[0].columns: found an empty mapping, expected at least one entry.")


def test_columns_are_a_mapping(refused: Refused) -> None:
    assert refused(
        "      order_id: long\n      total_amount: decimal(20,4)\n      tags: array<string>\n",
        "      - order_id: long\n      - total_amount: decimal(20,4)\n",
    ) == (
        "shop.yaml:14: tables[0].columns: found a list, expected a mapping of names to types, such as "
        "{order_id: long}. Leave out the dashes."
    )


def test_a_misspelled_type_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("order_id: long", "order_id: lnog") == (
        "shop.yaml:15: tables[0].columns.order_id: found 'lnog', expected a type: long, int, double, "
        "float, boolean, string, date, timestamp, timestamptz, time, binary, uuid, json, decimal(p,s) or"
        " array<type>. Did you mean 'long'?"
    )


def test_a_databases_type_is_named_with_ours(refused: Refused) -> None:
    assert refused("order_id: long", "order_id: bigint") == (
        "shop.yaml:15: tables[0].columns.order_id: found 'bigint', expected a type: long, int, double, "
        "float, boolean, string, date, timestamp, timestamptz, time, binary, uuid, json, decimal(p,s) or"
        " array<type>. Did you mean 'long'?"
    )


def test_a_databases_number_keeps_its_digits(refused: Refused) -> None:
    assert refused("decimal(20,4)", "NUMERIC(20, 4)") == (
        "shop.yaml:16: tables[0].columns.total_amount: found 'NUMERIC(20, 4)', expected a type: long, "
        "int, double, float, boolean, string, date, timestamp, timestamptz, time, binary, uuid, json, "
        "decimal(p,s) or array<type>. Did you mean 'decimal(20,4)'?"
    )


def test_a_number_without_digits_asks_for_them(refused: Refused) -> None:
    assert refused("decimal(20,4)", "numeric") == (
        "shop.yaml:16: tables[0].columns.total_amount: found 'numeric', expected a type: long, int, "
        "double, float, boolean, string, date, timestamp, timestamptz, time, binary, uuid, json, "
        "decimal(p,s) or array<type>. Say how wide: decimal(20,4)."
    )


def test_a_text_of_limited_length_is_a_string(refused: Refused) -> None:
    assert refused("order_id: long", "order_id: varchar(64)") == (
        "shop.yaml:15: tables[0].columns.order_id: found 'varchar(64)', expected a type: long, int, "
        "double, float, boolean, string, date, timestamp, timestamptz, time, binary, uuid, json, "
        "decimal(p,s) or array<type>. Did you mean 'string'?"
    )


def test_a_database_array_is_named_with_ours(refused: Refused) -> None:
    assert refused("tags: array<string>", "tags: text[]") == (
        "shop.yaml:17: tables[0].columns.tags: found 'text[]', expected a type: long, int, double, "
        "float, boolean, string, date, timestamp, timestamptz, time, binary, uuid, json, decimal(p,s) or"
        " array<type>. Did you mean 'array<string>'?"
    )


def test_a_decimal_has_at_most_38_digits(refused: Refused) -> None:
    assert refused("decimal(20,4)", "decimal(39,4)") == (
        "shop.yaml:16: tables[0].columns.total_amount: found 'decimal(39,4)', expected a decimal of 1 to"
        " 38 digits. Declare a wider number as string."
    )


def test_a_decimal_has_no_more_digits_after_the_point_than_it_has(refused: Refused) -> None:
    assert refused("decimal(20,4)", "decimal(4,6)") == (
        "shop.yaml:16: tables[0].columns.total_amount: found 'decimal(4,6)', expected a decimal with no "
        "more digits after the point than it has."
    )


def test_an_array_of_documents_is_refused(refused: Refused) -> None:
    assert refused("tags: array<string>", "tags: array<json>") == (
        "shop.yaml:17: tables[0].columns.tags: found 'array<json>', expected an array of single values. "
        "Declare such a column as json or string."
    )


def test_a_column_without_a_type_is_refused(refused: Refused) -> None:
    assert refused("tags: array<string>", "tags:") == (
        "shop.yaml:17: tables[0].columns.tags: found nothing, expected a type: long, int, double, float,"
        " boolean, string, date, timestamp, timestamptz, time, binary, uuid, json, decimal(p,s) or "
        "array<type>."
    )


def test_a_columns_unknown_detail_is_refused(refused: Refused) -> None:
    assert refused("order_id: long", "order_id: {type: long, surce: ID}") == (
        "shop.yaml:15: tables[0].columns.order_id.surce: found an unknown key, expected type, source or "
        "source_aliases. Did you mean 'source'?"
    )


def test_a_columns_name_is_its_key(refused: Refused) -> None:
    assert refused("order_id: long", "order_id: {type: long, name: ID}") == (
        "shop.yaml:15: tables[0].columns.order_id.name: found an unknown key, expected type, source or source_aliases. "
        "The key before it is the name."
    )


def test_a_column_of_our_own_prefix_is_refused(refused: Refused) -> None:
    assert refused("tags: array", "_txloom_tags: array") == (
        "shop.yaml:17: tables[0].columns._txloom_tags: found '_txloom_tags', expected a name that does "
        "not begin with _txloom_. That prefix marks txloom's own columns."
    )


def test_a_column_name_with_a_slash_is_refused(refused: Refused) -> None:
    assert refused("tags: array", '"../tags": array') == (
        "shop.yaml:17: tables[0].columns.'../tags': found '../tags', expected a name of letters, digits "
        "and underscores."
    )


def test_a_column_name_with_a_quote_is_refused(refused: Refused) -> None:
    assert refused("tags: array", "ta`gs: array") == (
        "shop.yaml:17: tables[0].columns.'ta`gs': found 'ta`gs', expected a name of letters, digits and underscores."
    )


def test_a_table_name_that_leaves_its_folder_is_refused(refused: Refused) -> None:
    assert refused("name: items", "name: ../items") == (
        "shop.yaml:19: tables[1].name: found '../items', expected a name of letters, digits and "
        "underscores, beginning with a letter."
    )


def test_a_table_name_with_quotes_is_refused(refused: Refused) -> None:
    assert refused("name: items", "name: it'ems") == (
        'shop.yaml:19: tables[1].name: found "it\'ems", expected a name of letters, digits and '
        "underscores, beginning with a letter."
    )


def test_a_table_name_with_a_leading_underscore_is_refused(refused: Refused) -> None:
    assert refused("name: items", "name: _rows_items") == (
        "shop.yaml:19: tables[1].name: found '_rows_items', expected a name of letters, digits and "
        "underscores, beginning with a letter. A leading underscore marks what is txloom's own."
    )


def test_a_pipeline_name_in_capitals_is_refused(refused: Refused) -> None:
    assert refused("name: shop", "name: Shop-EU") == (
        "shop.yaml:1: name: found 'Shop-EU', expected a name of lower-case letters, digits and "
        "underscores, beginning with a letter."
    )


def test_a_source_table_needs_its_schema(refused: Refused) -> None:
    assert refused("PUBLIC.ITEMS", "ITEMS") == (
        "shop.yaml:20: tables[1].source: found 'ITEMS', expected a source table as its schema and name, "
        "such as PUBLIC.ORDERS."
    )


def test_a_topic_that_leaves_its_folder_is_refused(refused: Refused) -> None:
    assert refused("dev.transactions", "../transactions") == (
        "shop.yaml:7: source.transaction_topic: found '../transactions', expected a topic: letters, "
        "digits, '.', '_' and '-'."
    )


def test_a_cron_of_four_fields_is_refused(refused: Refused) -> None:
    assert refused('"*/15 * * * *"', '"*/15 * * *"') == (
        "shop.yaml:2: schedule: found '*/15 * * *', expected a cron schedule such as '*/15 * * * *'. It "
        "has 4 fields, not five: minute, hour, day, month, day of the week."
    )


def test_a_cron_beyond_its_range_names_the_field(refused: Refused) -> None:
    assert refused('"*/15 * * * *"', '"0 25 * * *"') == (
        "shop.yaml:2: schedule: found '0 25 * * *', expected a cron schedule such as '*/15 * * * *'. Its"
        " hour must lie between 0 and 23."
    )


def test_a_cron_that_never_comes_is_refused(refused: Refused) -> None:
    assert refused('"*/15 * * * *"', '"0 0 30 2 *"') == (
        "shop.yaml:2: schedule: found '0 0 30 2 *', expected a cron schedule that comes to pass. No such"
        " month has that day."
    )


def test_a_schedule_by_an_unknown_name_lists_the_known_ones(refused: Refused) -> None:
    assert refused('"*/15 * * * *"', '"@often"') == (
        "shop.yaml:2: schedule: found '@often', expected a cron schedule such as '*/15 * * * *'. Names "
        "that Airflow knows: @hourly, @daily, @weekly, @monthly, @quarterly, @yearly."
    )


def test_a_duration_is_no_schedule(refused: Refused) -> None:
    assert refused('"*/15 * * * *"', "15m") == (
        "shop.yaml:2: schedule: found '15m', expected a cron schedule such as '*/15 * * * *'. It has 1 "
        "field, not five: minute, hour, day, month, day of the week."
    )


def test_an_unknown_relation_lists_the_known_ones(refused: Refused) -> None:
    assert refused("relation: many", "relation: several") == (
        "shop.yaml:33: targets.aggregates[0].children[0].relation: found 'several', expected one or many."
    )


def test_an_unknown_severity_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("severity: warn", "severity: warning") == (
        "shop.yaml:51: expectations[1].severity: found 'warning', expected block, warn or info. Did you mean 'warn'?"
    )


def test_an_unknown_kind_of_expectation_is_named_with_its_near_one(refused: Refused) -> None:
    assert refused("kind: orphans", "kind: orphan") == (
        f"shop.yaml:40: expectations[0].kind: found 'orphan', expected {KINDS}. Did you mean 'orphans'?"
    )


def test_an_expectation_needs_its_kind(refused: Refused) -> None:
    assert refused("  - kind: stuck_transactions\n    id", "  - id") == (
        f"shop.yaml:48: expectations[1].kind: found nothing, expected {KINDS}."
    )


def test_an_expectation_that_is_no_mapping_has_the_keys_that_all_kinds_have(refused: Refused) -> None:
    assert refused("maintenance:", "  - never empty\nmaintenance:") == (
        "shop.yaml:54: expectations[2]: found 'never empty', expected a mapping with kind, id, severity, sentence and "
        "hint."
    )


def test_options_of_kafka_are_a_mapping(refused: Refused) -> None:
    kafka = "  kafka: {brokers: kafka-1:9092, topics: [orders], options: [security.protocol=SSL]}"
    assert refused("  files:\n    path: inbox", kafka) == (
        "shop.yaml:5: source.kafka.options: found a list, expected a mapping."
    )


def test_a_retention_below_an_hour_is_refused(refused: Refused) -> None:
    assert refused("retain: 7d", "retain: 30m") == (
        "shop.yaml:56: maintenance.vacuum.retain: found '30m', expected a duration from 1h to 3650d."
    )


def test_a_size_in_words_is_refused(refused: Refused) -> None:
    assert refused("maintenance:", "maintenance:\n  optimize:\n    small_file_bytes: 32MB") == (
        "shop.yaml:56: maintenance.optimize.small_file_bytes: found '32MB', expected a whole number above 0."
    )


def test_a_date_in_another_order_is_refused(refused: Refused) -> None:
    assert refused("name: shop", "name: shop\nstart_date: 31/01/2025") == (
        "shop.yaml:2: start_date: found '31/01/2025', expected a date such as 2025-01-31."
    )


def test_a_day_that_its_month_does_not_have_is_refused(refused: Refused) -> None:
    assert refused("name: shop", "name: shop\nstart_date: 2025-02-30") == (
        "shop.yaml:2: start_date: found '2025-02-30', expected a date such as 2025-01-31."
    )


def test_a_number_where_text_belongs_asks_for_quotes(refused: Refused) -> None:
    assert refused("name: shop", "name: shop\nowner: 42") == (
        "shop.yaml:2: owner: found 42, expected text. Put it in quotes."
    )


def test_a_text_where_a_mapping_belongs_lists_its_keys(refused: Refused) -> None:
    assert refused("  files:\n    path: inbox", "  files: inbox") == (
        "shop.yaml:5: source.files: found 'inbox', expected a mapping with path, settle and layout."
    )


def test_one_pattern_of_mirrors_is_still_a_list(refused: Refused) -> None:
    assert refused("  mirrors:\n    - orders\n    - table: items\n      zorder: [item_no]", '  mirrors: "*"') == (
        "shop.yaml:35: targets.mirrors: found '*', expected a list. Write [\"*\"]."
    )


def test_all_mistakes_are_told_at_once_in_the_order_of_lines(refused: Refused) -> None:
    assert refused(
        "patience: 30m",
        "patience: -30m",
        ("key: [order_id]", "key: [orderid]"),
        ("relation: many", "relation: manny"),
        ("parent: orders", "parent: order"),
        ("retain: 7d", "retain: 7"),
    ) == (
        "shop.yaml:10: completeness.patience: found '-30m', expected a duration such as 30s, 15m, 2h or "
        "7d.\n"
        "shop.yaml:18: tables[0].key[0]: found 'orderid', expected a declared column of orders. Did you "
        "mean 'order_id'?\n"
        "shop.yaml:33: targets.aggregates[0].children[0].relation: found 'manny', expected one or many. "
        "Did you mean 'many'?\n"
        "shop.yaml:43: expectations[0].parent: found 'order', expected a watched table. Did you mean "
        "'orders'?\n"
        "shop.yaml:56: maintenance.vacuum.retain: found 7, expected a duration such as 30s, 15m, 2h or "
        "7d. A number alone does not say its unit."
    )
