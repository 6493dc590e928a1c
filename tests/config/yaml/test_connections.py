"""Airflow connections in a declaration: read where the source is, named everywhere else, shown nowhere."""

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from txloom.cli import main
from txloom.config import connections_of, discover, find, load
from txloom.config.models.pipeline import Pipeline
from txloom.config.yaml.environment import expand
from txloom.errors import ConfigurationError

Declared = Callable[..., Path]
Refused = Callable[..., str]

SECRET = "hunter2"
URI = f"kafka://loom:{SECRET}@broker-1.example:9092/eu?ca=%2Fetc%2Fca.pem&retries=3"
JSON = json.dumps(
    {
        "conn_type": "kafka",
        "host": "broker-1.example",
        "port": 9092,
        "login": "loom",
        "password": SECRET,
        "schema": "eu",
        "extra": {"ca": "/etc/ca.pem", "retries": 3, "own": True},
    }
)
TOPICS = (
    "  files:\n    path: inbox\n",
    "  kafka:\n"
    '    brokers: "${conn:shop_kafka.host}:${conn:shop_kafka.port}"\n'
    "    topics: [dev.orders]\n"
    "    options:\n"
    "      sasl.username: ${conn:shop_kafka.login}\n"
    "      sasl.password: ${conn:shop_kafka.password}\n"
    "      ssl.ca.location: ${conn:shop_kafka.extra.ca}\n",
)


@pytest.mark.parametrize("held", [URI, JSON, json.dumps({**json.loads(JSON), "extra": '{"ca": "/etc/ca.pem"}'})])
def test_a_declaration_takes_what_a_connection_holds(
    declared: Declared, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_KAFKA", held)
    kafka = load(declared(TOPICS)).source.kafka
    assert kafka is not None
    assert kafka.brokers == "broker-1.example:9092"
    assert kafka.options == {"sasl.username": "loom", "sasl.password": SECRET, "ssl.ca.location": "/etc/ca.pem"}


@pytest.mark.parametrize(
    ("text", "held", "expected"),
    [
        ("${conn:a.host}", "kafka://h", "h"),
        ("${conn:a.host}", "http://https://h:1", "https://h"),
        ("${conn:a.host}", "fs:///x?__extra__=%7B%7D", None),
        ("${conn:a.host}", "postgres://l:p@%2Fvar%2FRun:5432/db", "/var/Run"),
        ("${conn:a.schema}", "fs://h/x%2Fy", "x/y"),
        ("${conn:a.password}", "kafka://l:p%40%3A%2F%C3%A4@h", "p@:/ä"),
        ("${conn:a.password}", "kafka://l@h", None),
        ("${conn:a.extra.n}", "kafka://h/?n=5", "5"),
        ("${conn:a.extra.a.b}", "kafka://h/?a.b=c", "c"),
        ("${conn:a.extra.n}", "kafka://h/?__extra__=%7B%22n%22%3A+%5B1%5D%7D", None),
        ("${conn:a.extra.n}", '{"extra": {"n": true}}', "true"),
        ("${conn:a.extra.n}", '{"extra": {"n": 3}}', "3"),
        ("${conn:a-b.host}/${conn:a-b.host}", "kafka://h", "h/h"),
        ("$${conn:a.host}", "kafka://h", "${conn:a.host}"),
        ("${conn:-x}", "kafka://h", "x"),
    ],
)
def test_references_are_replaced(text: str, held: str, expected: str | None) -> None:
    environment = {"AIRFLOW_CONN_A": held, "AIRFLOW_CONN_A-B": held}
    if expected is None:
        with pytest.raises(ValueError, match="It is empty there"):
            expand(text, environment)
    else:
        assert expand(text, environment) == expected


def test_a_connection_that_nobody_defined_is_named_with_what_to_set(refused: Refused) -> None:
    hint = "Define it in Airflow; for a job by hand set AIRFLOW_CONN_SHOP_KAFKA to its URI or JSON."
    expected = f"expected the connection shop_kafka. {hint}"
    assert refused(*TOPICS) == (
        "shop.yaml:6: source.kafka.brokers: found '${conn:shop_kafka.host}:${conn:shop_kafka.port}', "
        f"{expected}\n"
        f"shop.yaml:9: source.kafka.options.'sasl.username': found '${{conn:shop_kafka.login}}', {expected}\n"
        f"shop.yaml:10: source.kafka.options.'sasl.password': found '${{conn:shop_kafka.password}}', {expected}\n"
        f"shop.yaml:11: source.kafka.options.'ssl.ca.location': found '${{conn:shop_kafka.extra.ca}}', {expected}"
    )


@pytest.mark.parametrize("held", ["hunter2", "{hunter2", "kafka://h:hunter2", '{"extra": "[\\"hunter2\\"]"}', "[1]"])
def test_a_variable_that_holds_no_connection_is_named_without_its_value(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", held)
    assert refused("path: inbox", "path: ${conn:shop.host}") == (
        "shop.yaml:6: source.files.path: found '${conn:shop.host}', "
        "expected AIRFLOW_CONN_SHOP to hold a connection as URI or JSON."
    )


def test_a_field_that_is_empty_is_named(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", "kafka://h")
    assert refused("path: inbox", "path: /in/${conn:shop.extra.folder}") == (
        "shop.yaml:6: source.files.path: found '/in/${conn:shop.extra.folder}', "
        "expected the connection shop to have extra.folder. It is empty there."
    )


@pytest.mark.parametrize("text", ["${conn:shop}", "${conn:shop.pasword}", "${conn:.host}", "${conn:shop.extra.}"])
def test_a_reference_that_is_written_wrong_is_shown(refused: Refused, text: str) -> None:
    assert refused("path: inbox", f"path: '{text}'") == (
        f"shop.yaml:6: source.files.path: found '{text}', expected ${{conn:ID.FIELD}}. "
        "FIELD is host, port, login, password, schema or extra.NAME."
    )


@pytest.mark.parametrize(
    ("position", "new", "where"),
    [
        ("name: shop", "name: ${conn:shop.login}", "1: name"),
        ("settle: 1s", "settle: ${conn:shop.port}", "7: source.files.settle"),
        ("transaction_topic: dev.transactions", "transaction_topic: ${conn:shop.host}", "8: source.transaction_topic"),
    ],
)
@pytest.mark.parametrize("held", [None, f"kafka://{SECRET}:{SECRET}@{SECRET}:1"])
def test_no_name_hangs_on_a_connection(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, position: str, new: str, where: str, held: str | None
) -> None:
    if held is not None:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", held)
    files = ("path: inbox", "path: inbox\n    settle: 1s")
    reference = new.partition(": ")[2]
    assert refused(*files, (position, new)) == (
        f"shop.yaml:{where}: found '{reference}', expected a text without ${{conn:...}}. A connection stands in "
        "source.kafka.brokers, source.kafka.options, source.files.path and alerts.notify only, so that no name "
        "hangs on a secret."
    )


def test_discovering_needs_no_connection_and_a_job_does(declared: Declared) -> None:
    declared(TOPICS)
    ((_, declarations_read),) = discover(Path())
    assert isinstance(declarations_read, Pipeline)
    assert declarations_read.source.kafka is not None
    assert declarations_read.source.kafka.options["sasl.password"] == "${conn:shop_kafka.password}"
    with pytest.raises(ConfigurationError, match="expected the connection shop_kafka"):
        find("shop", Path())


def test_discovering_shows_no_secret_even_where_the_environment_has_it(
    declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_KAFKA", URI)
    declared(TOPICS)
    assert SECRET not in repr(discover(Path()))
    result = find("shop", Path(), {"AIRFLOW_CONN_SHOP_KAFKA": JSON.replace(SECRET, "other")})
    assert result.source.kafka is not None
    assert result.source.kafka.options["sasl.password"] == "other"


def test_the_connections_of_a_file_are_listed(declared: Declared, capsys: pytest.CaptureFixture[str]) -> None:
    path = declared(TOPICS, ("ssl.ca.location: ${conn:shop_kafka.", "ssl.ca.location: ${conn:ca."))
    assert connections_of(path) == ["ca", "shop_kafka"]
    assert connections_of(declared(("path: inbox", "path: $${conn:none.host}"))) == []
    declared(TOPICS)
    assert main(["check", "shop.yaml"]) == 0
    assert capsys.readouterr().out == (
        "shop.yaml: ok, 2 tables, 1 aggregate, 2 mirrors, 2 expectations; connections that its jobs need: shop_kafka\n"
    )


@pytest.mark.parametrize("wrong", ["patience: x", "rule: x", "format: x"])
def test_a_secret_of_a_connection_is_in_no_message_and_no_traceback(
    declared: Declared, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_KAFKA", URI)
    name = wrong.partition(":")[0]
    old = {"patience": "patience: 30m", "rule": "rule: counts", "format": "format: goldengate"}[name]
    try:
        load(declared(TOPICS, (old, wrong)))
    except ConfigurationError:
        assert SECRET not in traceback.format_exc()
    else:
        raise AssertionError("it was not refused")
