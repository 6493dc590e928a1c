"""include/pipelines: the shipped example fits the sample's source, and its schema is current."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from txloom.config import discover, load
from txloom.config.json_schema import schema_text
from txloom.config.models.base import Model
from txloom.config.models.pipeline import Pipeline

PROJECT = Path(__file__).resolve().parents[2]
PIPELINES = PROJECT / "include" / "pipelines"
LAKE_TYPES = {
    r"bigint": "long",
    r"int": "int",
    r"(varchar\(\d+\)|char\(\d+\)|text)": "string",
    r"timestamp": "timestamp",
    r"timestamptz": "timestamptz",
    r"date": "date",
    r"time": "time",
    r"bytea": "binary",
    r"jsonb": "json",
    r"double precision": "double",
    r"boolean": "boolean",
    r"uuid": "uuid",
}


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.delenv("TXLOOM_INBOX", raising=False)
    return load(PIPELINES / "orders.yaml")


def lake_type(source: str) -> str:
    if source.endswith("[]"):
        return f"array<{lake_type(source[:-2])}>"
    if number := re.fullmatch(r"numeric\((\d+),(\d+)\)", source):
        return f"decimal({number[1]},{number[2]})"
    return next(ours for theirs, ours in LAKE_TYPES.items() if re.fullmatch(theirs, source))


def source_tables() -> dict[str, dict[str, str]]:
    """Read the columns of the source's tables from its schema."""
    text = (PROJECT / "include" / "sample" / "schema.sql").read_text()
    kinds = r"(?:double precision|numeric\(\d+,\d+\)|\w+\(\d+\)|\w+)(?:\[\])?"
    tables = re.findall(r"CREATE TABLE (\w+) \((.*?)\);", text, flags=re.DOTALL)
    columns = {table: re.findall(rf"(?:^|,)\s*([a-z_]+)\s+({kinds})", body) for table, body in tables}
    return {table: {name: lake_type(kind) for name, kind in columns_of} for table, columns_of in columns.items()}


def test_every_watched_table_has_the_columns_of_the_source(orders: Pipeline) -> None:
    declared = {table.name: {c.name: str(c.type) for c in table.columns} for table in orders.tables}
    source = source_tables()
    del source["audit_log"]
    assert declared == source


def test_every_watched_table_is_mirrored(orders: Pipeline) -> None:
    assert {mirror.table for mirror in orders.targets.mirrors} == {table.name for table in orders.tables}


def test_the_order_is_one_document(orders: Pipeline) -> None:
    [aggregate] = orders.targets.aggregates
    assert (aggregate.root, aggregate.history, aggregate.current) == ("orders", "order_stream", "orders_current")
    assert [(child.table, child.as_, child.relation) for child in aggregate.children] == [
        ("order_details", "order_details", "one"),
        ("order_line_items", "line_items", "many"),
        ("order_attachments", "attachments", "many"),
    ]


def test_the_example_reads_the_sample_unless_told_otherwise(orders: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    assert orders.source.files.path == "include/sample/inbox"
    monkeypatch.setenv("TXLOOM_INBOX", "/deliveries")
    assert load(PIPELINES / "orders.yaml").source.files.path == "/deliveries"


def test_every_shipped_declaration_is_right() -> None:
    assert all(isinstance(pipeline, Pipeline) for _, pipeline in discover(PIPELINES))


def test_the_schema_for_editors_is_current() -> None:
    assert (PIPELINES / "schema.json").read_text() == schema_text(), (
        "run: txloom schema > include/pipelines/schema.json"
    )


def test_the_example_names_the_schema_and_fits_it() -> None:
    schema = json.loads((PIPELINES / "schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    text = (PIPELINES / "orders.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=schema.json\n")
    assert list(Draft202012Validator(schema).iter_errors(yaml.load(text, yaml.BaseLoader) | numbers(text))) == []


def numbers(text: str) -> dict[str, Any]:
    """Return the parts of the example that hold numbers; the base loader reads them as text."""
    collected = yaml.safe_load(text)
    return {"alerts": collected["alerts"], "maintenance": collected["maintenance"]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("patience: ${ORDERS_PATIENCE:-30m}", "patiance: 30m"),
        ("patience: ${ORDERS_PATIENCE:-30m}", "patience: 30"),
        ("order_id: long", "order_id: bigint"),
    ],
)
def test_an_editor_sees_what_we_refuse(old: str, new: str) -> None:
    schema = json.loads((PIPELINES / "schema.json").read_text())
    text = (PIPELINES / "orders.yaml").read_text().replace(old, new, 1)
    assert list(Draft202012Validator(schema).iter_errors(yaml.load(text, yaml.BaseLoader) | numbers(text)))


def models(model: type[Model]) -> list[type[Model]]:
    return [model, *(inside for subclass in model.__subclasses__() for inside in models(subclass))]


def test_every_field_has_a_description_of_one_line() -> None:
    descriptions = [field.description for model in models(Model) for field in model.model_fields.values()]
    assert len(descriptions) > 40
    assert all(text and "\n" not in text and not text.endswith(".") and text[0].isupper() for text in descriptions)
