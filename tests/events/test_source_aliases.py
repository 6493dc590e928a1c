"""Former names of a renamed column: one rule says under which name a row has its value, in every format."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.config import load
from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Pipeline, Table
from txloom.events import formats
from txloom.events.images.reader import ImageReader

Row = dict[str, Any]
KEY, VALUE = ("ID", "NUMBER"), ("PHASE", "STATE", "STATUS")
"""The names of two columns in the source, the newest first."""


def orders(**options: Any) -> Table:
    columns = (
        Column(name="id", type=parse("long"), source=KEY[0], source_aliases=KEY[1:]),
        Column(name="status", type=parse("string"), source=VALUE[0], source_aliases=VALUE[1:]),
    )
    return Table(name="orders", source="APP.ORDERS", columns=columns, key=("id",), **options)


spelled = st.sampled_from([str.lower, str.upper, str.title])


@st.composite
def images(draw: st.DrawFn, *, whole: bool) -> dict[str, Any]:
    """Draw an image with some of the names of each column; whole: with a key."""
    keys = draw(st.lists(st.sampled_from(KEY), unique=True, min_size=int(whole)))
    names = [*keys, *draw(st.lists(st.sampled_from(VALUE), unique=True))]
    values = {
        name: draw(st.integers(1, 9)) if name in KEY else draw(st.sampled_from([None, "a", "b"])) for name in names
    }
    return {draw(spelled)(name): value for name, value in draw(st.permutations([*values.items()]))}


def value_of(image: Mapping[str, Any], names: Sequence[str]) -> tuple[bool, Any]:
    """Return whether an image has a column, and its value."""
    by_name = {name.upper(): value for name, value in image.items()}
    return next(((True, by_name[name]) for name in names if name in by_name), (False, None))


def read_plainly(op: str, image: Mapping[str, Any]) -> Row:
    """Return what a row has of an image after the change."""
    columns = {"id": value_of(image, KEY), "status": value_of(image, VALUE)}
    lacking = [name for name, (is_there, _) in columns.items() if not is_there] or None
    absent = {"unchanged": lacking if op == "U" else None, "absent": lacking if op == "I" else None}
    return {"after": {name: value for name, (_, value) in columns.items()}, **absent, "problem": None}


@given(st.lists(st.tuples(st.sampled_from("IU"), images(whole=True)), min_size=1, max_size=8))
def test_a_row_has_the_value_under_the_first_name_that_it_has(drawn: list[tuple[str, dict[str, Any]]]) -> None:
    messages = [json.dumps({"op_type": op, "after": image}) for op, image in drawn]
    expected = [read_plainly(op, image) for op, image in drawn]
    together = ImageReader(orders()).read(messages).to_pylist()
    alone = [ImageReader(orders(undeclared_columns="quarantine")).read([each]).to_pylist()[0] for each in messages]
    for rows in (together, alone):
        assert [{name: row[name] for name in expected[0]} for row in rows] == expected
        assert [row["undeclared"] for row in rows] == [None] * len(rows)


def goldengate(key: Row, row: Row) -> bytes:
    head = {"table": "APP.ORDERS", "op_type": "U", "pos": "1", "xid": "1.1", "csn": "7"}
    return json.dumps(head | {"before": key, "after": row}).encode()


def debezium(key: Row, row: Row) -> bytes:
    source = {"connector": "postgresql", "schema": "APP", "table": "ORDERS", "lsn": 7, "txId": 1, "snapshot": "false"}
    block = {"id": "1:7", "total_order": 1, "data_collection_order": 1}
    return json.dumps({"op": "u", "before": key, "after": row, "source": source, "transaction": block}).encode()


def wal2json(key: Row, row: Row) -> bytes:
    def cells(image: Row) -> list[Row]:
        return [{"name": name, "type": "text", "value": value} for name, value in image.items()]

    head = {"action": "U", "xid": 1, "lsn": "0/7", "schema": "APP", "table": "ORDERS"}
    return json.dumps(head | {"columns": cells(row), "identity": cells(key)}).encode()


BEGIN = json.dumps({"action": "B", "xid": 1, "lsn": "0/8", "nextlsn": "0/9"}).encode()


def change_events(key: Row, row: Row) -> bytes:
    lists = {"columnNames": [*row], "columnValues": [*row.values()]}
    lists |= {"oldKeyNames": [*key], "oldKeyValues": [*key.values()]}
    return json.dumps({"changeType": "update", "timestamp": 7, "table": "APP.ORDERS", **lists}).encode()


def change_sets(key: Row, row: Row) -> bytes:
    return json.dumps({"FLAG": "U", "CDC_TIMESTAMP": 7, **key, **row}).encode()


FORMATS = {
    "goldengate": (goldengate, "goldengate, transaction_topic: meta", "counts, patience: 30m"),
    "debezium": (debezium, "debezium, transaction_topic: meta", "counts, patience: 30m"),
    "wal2json": (wal2json, "wal2json", "markers, patience: 30m"),
    "change_events": (change_events, "change_events", "single"),
    "change_sets": (change_sets, "change_sets", "single"),
}


def declare(folder: Path, name: str) -> Pipeline:
    _, source, rule = FORMATS[name]
    columns = ", ".join(
        f"{column}: {{type: {kind}, source: {now}, source_aliases: [{', '.join(former)}]}}"
        for column, kind, (now, *former) in (("id", "long", KEY), ("status", "string", VALUE))
    )
    file = folder / "shop.yaml"
    file.write_text(
        f"name: shop\nsource: {{format: {source}, files: {{path: inbox}}}}\ncompleteness: {{rule: {rule}}}\n"
        f"tables:\n  - {{name: orders, source: APP.ORDERS, key: [id], columns: {{{columns}}}}}\n"
        "targets: {mirrors: [orders]}\n"
    )
    return load(file)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("value_name", VALUE)
@pytest.mark.parametrize("key_name", KEY)
def test_a_key_and_a_value_are_read_under_each_name(tmp_path: Path, name: str, key_name: str, value_name: str) -> None:
    """A row is decoded with its key, and its images are those of a row under the present names."""
    pipeline, (write, *_) = declare(tmp_path, name), FORMATS[name]
    rows = []
    for names in ((KEY[0], VALUE[0]), (key_name, value_name)):
        messages = [BEGIN] * (name == "wal2json") + [write({names[0]: 1}, {names[0]: 1, names[1]: "paid"})]
        topic = "orders" if name == "change_sets" else "rows"
        *_, event = formats.SourceDecoder(pipeline).decode(topic, messages, [None] * len(messages)).to_pylist()
        assert (event["kind"], event["table"], event["op"]) == ("row", "orders", "U"), event
        table, values = pipeline.table("orders"), [event["value"]]
        if (writer := formats.images(pipeline, table)) is not None:
            values = formats.canonical(writer, values, [event["op"]], [None])
        rows.append(ImageReader(table).read(values).to_pylist()[0])
    assert rows[0] == rows[1]
    assert rows[1]["after"] == {"id": 1, "status": "paid"}
