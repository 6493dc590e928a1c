"""What goes with each rule: formats, transaction topic, patience, idle time, fields of change sets."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from txloom.config import load

Refused = Callable[..., str]
Declared = Callable[..., Path]
Change = tuple[str, str]


def test_a_rule_that_the_format_does_not_have_is_refused_with_the_one_that_it_has(refused: Refused) -> None:
    assert refused("rule: counts", "rule: markers") == (
        "shop.yaml:9: completeness.rule: found 'markers', expected 'counts' or 'progress' for the format goldengate. "
        "It is what makes a transaction of goldengate whole."
    )


def test_a_transaction_topic_belongs_to_formats_that_count(refused: Refused, declared: Declared) -> None:
    marked = ("rule: counts", "rule: markers"), ("format: goldengate", "format: wal2json")
    assert refused(*marked[0], *marked[1:]) == (
        "shop.yaml:7: source.transaction_topic: found 'dev.transactions', "
        "expected no transaction topic: wal2json has none under the rule markers."
    )
    assert load(declared(*marked, ("  transaction_topic: dev.transactions\n", ""))).source.format == "wal2json"


def test_events_that_stand_alone_need_no_patience(refused: Refused, declared: Declared) -> None:
    topic = ("  transaction_topic: dev.transactions\n", "")
    alone = ("rule: counts", "rule: single"), ("format: goldengate", "format: change_events"), topic
    assert load(declared(*alone, ("  patience: 30m\n", ""))).completeness.rule == "single"
    assert refused("  patience: 30m\n", "") == (
        "shop.yaml:8: completeness.patience: found nothing, expected how long an incomplete transaction may wait, "
        "such as 30m."
    )


SNAPSHOTS = (("format: goldengate", "format: snapshots"), ("rule: counts", "rule: single"))
PROGRESS = (
    ("rule: counts", "rule: progress"),
    ("  transaction_topic: dev.transactions\n", ""),
    ("  patience: 30m\n", "  idle_after: 10m\n"),
)


def test_progress_needs_no_metadata_and_no_patience(declared: Declared) -> None:
    completeness = load(declared(*PROGRESS)).completeness
    assert (completeness.rule, completeness.idle_after) == ("progress", timedelta(minutes=10))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            PROGRESS[:2],
            "shop.yaml:9: completeness.patience: found '30m', expected no patience under the rule progress. "
            "Transactions wait until every partition has gone past them; see completeness.idle_after.",
        ),
        (
            (PROGRESS[0], PROGRESS[2]),
            "shop.yaml:7: source.transaction_topic: found 'dev.transactions', expected no transaction topic: "
            "goldengate has none under the rule progress.",
        ),
        (
            (*PROGRESS, ("format: goldengate", "format: change_sets")),
            "shop.yaml:8: completeness.rule: found progress without it, expected source.change_sets.transaction: the "
            "field with the id of the source's transaction.",
        ),
        (
            (*PROGRESS, ("format: goldengate", "format: goldengate\n  change_sets: {flag: op}")),
            "shop.yaml:5: source.change_sets: found fields of change sets for goldengate, expected "
            "source.format: change_sets.",
        ),
        (
            (
                ("rule: counts", "rule: single"),
                *PROGRESS[1:2],
                ("  patience: 30m\n", ""),
                ("format: goldengate", "format: change_sets\n  change_sets: {transaction: tid}"),
            ),
            "shop.yaml:5: source.change_sets.transaction: found 'tid', expected completeness.rule: progress. "
            "Without it each row stands alone.",
        ),
        (
            (
                ("rule: counts", "rule: markers\n  idle_after: 10m"),
                ("format: goldengate", "format: wal2json"),
                PROGRESS[1],
            ),
            "shop.yaml:9: completeness.idle_after: found '10m', expected no idle time under the rule markers. "
            "No partition waits for another.",
        ),
    ],
)
def test_what_a_rule_does_not_have_is_refused(refused: Refused, changes: tuple[Change, ...], message: str) -> None:
    assert refused(*changes[0], *changes[1:]) == message


def test_an_audit_by_the_clock_needs_a_database(refused: Refused) -> None:
    clock = 'schedule: "*/15 * * * *"'
    assert refused(clock, f'{clock}\naudit: {{schedule: "0 4 * * 0"}}') == (
        "shop.yaml:3: audit.schedule: found '0 4 * * 0', expected a connection beside it. An audit of a folder is "
        "started by its form."
    )


def test_a_run_begins_by_the_clock_or_by_assets(refused: Refused) -> None:
    clock = 'schedule: "*/15 * * * *"'
    assert refused(clock, f"{clock}\nafter: [s3://in/done]") == (
        "shop.yaml:3: after: found assets beside a schedule, expected either schedule or after."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "time_precision_mode: adaptive",
            "shop.yaml:5: source.debezium.time_precision_mode: found 'adaptive', expected source.debezium.database "
            "beside it. Each database counts in other units.",
        ),
        (
            "database: mysql, time_unit: millis",
            "shop.yaml:5: source.debezium.time_unit: found time_unit beside them, expected either time_unit, or "
            "database and time_precision_mode.",
        ),
        (
            "database: mssql",
            "shop.yaml:5: source.debezium.database: found 'mssql', expected postgresql, mysql, mariadb, oracle or "
            "sqlserver. Did you mean 'mysql'?",
        ),
    ],
)
def test_the_unit_of_debeziums_times_is_told_once_and_in_full(refused: Refused, options: str, message: str) -> None:
    text = "format: debezium\n  debezium: {" + options + "}"
    assert refused("format: goldengate", text) == message


def test_a_mode_that_counts_one_unit_needs_no_database(declared: Declared) -> None:
    text = "format: debezium\n  debezium: {time_precision_mode: connect}"
    assert load(declared(("format: goldengate", text))).source.debezium.time_precision_mode == "connect"


KAFKA = "  kafka: {brokers: kafka-1:9092, topics: [orders]}\n"
FILES = "  files:\n    path: inbox\n"


@pytest.mark.parametrize(
    ("transport", "message"),
    [
        (
            "",
            "shop.yaml:3: source.files: found nothing, expected a mapping with path, settle and layout, or "
            "source.kafka instead of it.",
        ),
        (
            "  files:\n  kafka:\n",
            "shop.yaml:5: source.files: found nothing, expected a mapping with path, settle and layout, or "
            "source.kafka instead of it.",
        ),
        (FILES + KAFKA, "shop.yaml:7: source.kafka: found kafka beside files, expected either files or kafka."),
    ],
)
def test_a_source_has_either_files_or_kafka(refused: Refused, transport: str, message: str) -> None:
    assert refused(FILES, transport) == message


@pytest.mark.parametrize("transport", [FILES + "  kafka:\n", "  files:\n" + KAFKA])
def test_a_transport_without_a_value_is_left_out(declared: Declared, transport: str) -> None:
    source = load(declared((FILES, transport))).source
    assert (source.files is None) == (source.kafka is not None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [("transaction_topic: dev.transactions", "transaction_topic:")],
            "shop.yaml:7: source.transaction_topic: found nothing, expected the topic that carries the transaction "
            "metadata.",
        ),
        (
            [("  transaction_topic: dev.transactions\n", "  snapshots:\n"), *SNAPSHOTS],
            "shop.yaml:7: source.snapshots: found nothing, expected a mapping with extracts: full or partial.",
        ),
        (
            [*PROGRESS, ("format: goldengate", "format: change_sets\n  change_sets: {transaction: }")],
            "shop.yaml:9: completeness.rule: found progress without it, expected source.change_sets.transaction: the "
            "field with the id of the source's transaction.",
        ),
        (
            [("format: goldengate", "format: debezium\n  debezium: {time_precision_mode: adaptive, database: }")],
            "shop.yaml:5: source.debezium.time_precision_mode: found 'adaptive', expected source.debezium.database "
            "beside it. Each database counts in other units.",
        ),
    ],
)
def test_a_key_without_a_value_is_not_what_a_rule_needs(refused: Refused, changes: list[Change], message: str) -> None:
    assert refused(*changes[0], *changes[1:]) == message


@pytest.mark.parametrize(
    "changes",
    [
        [('schedule: "*/15 * * * *"', "schedule:\nafter: [s3://in/done]")],
        [("format: goldengate", "format: debezium\n  debezium: {time_unit: , database: mysql}")],
        [("format: goldengate", "format: debezium\n  debezium: {time_unit: millis, time_precision_mode: }")],
        [("  transaction_topic: dev.transactions\n", "  transaction_topic: dev.transactions\n  snapshots:\n")],
        [
            *SNAPSHOTS,
            (
                "  transaction_topic: dev.transactions\n",
                "  snapshots: {extracts: full}\n  transaction_topic:\n  kafka:\n",
            ),
            ("  patience: 30m\n", "  patience: 30m\n  idle_after:\n"),
        ],
        [
            ("format: goldengate", "format: change_sets\n  change_sets: {transaction: }"),
            ("rule: counts", "rule: single"),
            PROGRESS[1],
        ],
    ],
)
def test_a_key_without_a_value_is_nothing_too_much(declared: Declared, changes: list[Change]) -> None:
    assert load(declared(*changes)).name == "shop"


def test_fields_of_change_sets_without_a_value_are_one_mistake(refused: Refused) -> None:
    assert refused("format: goldengate", "format: goldengate\n  change_sets:") == (
        "shop.yaml:5: source.change_sets: found nothing, expected a mapping with flag, timestamp, transaction and "
        "sequence."
    )


TOPIC = "  transaction_topic: dev.transactions\n"
SIGNALS = "  signals: {topic: shop-signals, notifications: shop-notifications}\n"


def test_signals_are_for_a_connector_over_kafka_and_go_to_its_prefix(refused: Refused, declared: Declared) -> None:
    debezium = ("format: goldengate", "format: debezium"), (FILES, KAFKA)
    for change in (debezium[0], debezium[1]):
        message = refused(*change, (TOPIC, TOPIC + SIGNALS))
        assert "found signals without a connector, expected source.format: debezium, over source.kafka" in message
    assert "source.signals.prefix: found nothing, expected the connector's topic.prefix" in refused(
        *debezium[0], debezium[1], (TOPIC, TOPIC + SIGNALS)
    )
    declared_prefix = SIGNALS.replace("}", ", prefix: dev}")
    for topic in (TOPIC + declared_prefix, TOPIC.replace("transactions", "transaction") + SIGNALS):
        signals = load(declared(*debezium, (TOPIC, topic))).source.signals
        assert signals is not None and signals.topic == "shop-signals"
