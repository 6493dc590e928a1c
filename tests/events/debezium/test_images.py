"""Canonical images of Debezium rows: what a message surely tells of a row, and nothing else."""

import json
from datetime import date
from typing import Any

import pytest

from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.events.debezium.images import DebeziumImages
from txloom.events.debezium.messages import NEW_KEY, OLD_KEY, UNAVAILABLE, is_unavailable
from txloom.events.images.reader import ImageReader

COLUMNS = {"code": "string", "day": "date", "total": "decimal(38,10)", "body": "string", "codes": "array<int>"}
TABLE = Table(
    name="t",
    source="public.t",
    columns=tuple(Column(name=name, type=parse(kind)) for name, kind in COLUMNS.items()),
    key=("code", "day"),
)
ROW = {"code": "P1", "day": 20501, "total": "1.5", "body": None, "codes": [1]}
READ = {**ROW, "day": "2026-02-17"}
KEY = {"code": "P1", "day": "2026-02-17"}
FIELDS = [{"type": "string", "field": "code"}, {"type": "int32", "name": "io.debezium.time.Date", "field": "day"}]


def message(op: str, before: Any, after: Any, connector: str = "postgresql") -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"connector": connector, "table": "t"}}


def wrapped(payload: dict[str, Any], fields: Any) -> dict[str, Any]:
    image = {"type": "struct", "fields": fields, "optional": True}
    parts = [{**image, "field": "before"}, {**image, "field": "after"}, {"type": "string", "field": "op"}]
    return {"schema": {"type": "struct", "fields": parts, "name": "dev.public.t.Envelope"}, "payload": payload}


def canonical(content: Any, op: str, headers: Any = None) -> dict[str, Any]:
    value = content if isinstance(content, str) else json.dumps(content)
    (image,) = DebeziumImages(TABLE).canonical([value], [op], [headers])
    return dict(json.loads(image))


@pytest.mark.parametrize("op", ["I", "r"])
def test_an_insert_has_its_whole_row_and_none_before(op: str) -> None:
    assert canonical(message("c", None, ROW), op) == {"op_type": op, "before": None, "after": READ}


def test_every_digit_is_kept() -> None:
    template = '{"op":"c","before":null,"after":{"code":"P1","total":%s},"source":{"connector":"postgresql"}}'
    digits = "1234567890123456789012345678.0123456789"
    (image,) = DebeziumImages(TABLE).canonical([template % digits], ["I"], [None])
    assert digits.encode() in image


def test_an_update_leaves_out_what_did_not_change_and_keeps_nulls() -> None:
    image = canonical(message("u", None, {**ROW, "body": UNAVAILABLE, "total": None}), "U")
    after = {"code": "P1", "day": "2026-02-17", "total": None, "codes": [1]}
    assert image == {"op_type": "U", "before": None, "after": after}


@pytest.mark.parametrize(
    "value",
    [
        UNAVAILABLE,
        "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
        UNAVAILABLE.encode().hex(),
        [UNAVAILABLE],
        ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="],
        ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
        list(UNAVAILABLE.encode()),
        {UNAVAILABLE: UNAVAILABLE},
        json.dumps({UNAVAILABLE: UNAVAILABLE}, separators=(",", ":")),
    ],
)
def test_a_value_that_did_not_change_has_a_form_for_each_type(value: Any) -> None:
    assert "body" not in canonical(message("u", None, {**ROW, "body": value}), "U")["after"]
    assert is_unavailable(json.dumps(value, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    "value",
    [
        "__debezium_unavailable",
        f"{UNAVAILABLE}s",
        f"x{UNAVAILABLE}",
        [UNAVAILABLE, "a"],
        [[95, 95, 100]],
        {"a": UNAVAILABLE},
    ],
)
def test_a_value_that_only_looks_like_it_is_a_value(value: Any) -> None:
    assert canonical(message("u", None, {**ROW, "body": value}), "U")["after"]["body"] == value


def test_an_update_with_the_whole_row_before_tells_it() -> None:
    image = canonical(message("u", {**ROW, "body": "old"}, {**ROW, "body": "new"}), "U")
    assert image == {"op_type": "U", "before": {**READ, "body": "old"}, "after": {**READ, "body": "new"}}


INVENTED = {"code": "P1", "day": 20501, "total": "0", "body": "", "codes": None}


@pytest.mark.parametrize(
    ("connector", "op", "before"),
    [
        ("postgresql", "D", KEY),
        ("postgresql", "K", KEY),
        ("mysql", "D", {**READ, "total": "0", "body": "", "codes": None}),
        ("oracle", "D", {**READ, "total": "0", "body": "", "codes": None}),
        ("sqlserver", "D", {**READ, "total": "0", "body": "", "codes": None}),
        ("sqlserver", "K", KEY),
    ],
)
def test_a_delete_tells_its_key_and_more_only_where_the_log_has_it(connector: str, op: str, before: Any) -> None:
    assert canonical(message("d", INVENTED, None, connector), op, {NEW_KEY: "{}"}) == {
        "op_type": op,
        "before": before,
        "after": None,
    }


def test_the_insert_of_a_key_change_is_an_update_of_the_old_key() -> None:
    sent = message("c", None, {**ROW, "code": "P2", "body": UNAVAILABLE})
    image = canonical(sent, "U", {OLD_KEY: '{"code":"P1","day":20500}'})
    assert image["before"] == {"code": "P1", "day": "2026-02-16"}
    assert image["after"] == {"code": "P2", "day": "2026-02-17", "total": "1.5", "codes": [1]}


def test_the_old_key_may_have_its_schema_around_it() -> None:
    header = {"schema": {"type": "struct", "fields": FIELDS}, "payload": {"code": "P1", "day": 20500}}
    image = canonical(message("c", None, ROW), "U", {OLD_KEY: json.dumps(header)})
    assert image["before"] == {"code": "P1", "day": "2026-02-16"}


def test_a_truncate_has_no_images() -> None:
    assert canonical(message("t", None, None), "T") == {"op_type": "T", "before": None, "after": None}


def test_columns_are_converted_in_any_case_and_undeclared_ones_pass() -> None:
    after = {"CODE": "P1", "Day": 20501, "extra": 20501}
    assert canonical(message("u", None, after), "U")["after"] == {"CODE": "P1", "Day": "2026-02-17", "extra": 20501}
    assert canonical(message("d", after, None), "D")["before"] == {"CODE": "P1", "Day": "2026-02-17"}


def test_each_message_is_read_with_the_schema_around_it() -> None:
    images = DebeziumImages(TABLE)
    days, moments = ([FIELDS[0], {**FIELDS[1], "name": f"io.debezium.time.{name}"}] for name in ("Date", "Timestamp"))
    sent = [
        wrapped(message("c", None, {"code": "P1", "day": 1}), days),
        wrapped(message("c", None, {"code": "P1", "day": 86400000}), moments),
        message("c", None, {"code": "P1", "day": 1}),
        wrapped(message("c", None, {"code": "P1", "day": 1}), days),
    ]
    image = images.canonical([json.dumps(each) for each in sent], ["I"] * 4, [None] * 4)
    assert [row["after"]["day"] for row in ImageReader(TABLE).read(image).to_pylist()] == [date(1970, 1, 2)] * 4


def test_a_schema_of_a_column_that_was_dropped_since_still_tells() -> None:
    sent = wrapped(message("d", {"code": "P1", "day": 1}, None), FIELDS)
    assert canonical(sent, "D")["before"] == {"code": "P1", "day": "1970-01-02"}


@pytest.mark.parametrize("schema", [None, 7, {"fields": 7}, {"type": "struct", "fields": [{"field": "after"}]}])
def test_a_schema_that_is_none_tells_nothing(schema: Any) -> None:
    assert canonical({"schema": schema, "payload": message("c", None, ROW)}, "I")["after"] == READ


def test_the_image_reader_sees_unchanged_columns_under_the_old_key() -> None:
    sent = json.dumps(message("c", None, {**ROW, "code": "P2", "body": UNAVAILABLE}))
    image = DebeziumImages(TABLE).canonical([sent], ["U"], [{OLD_KEY: '{"code":"P1","day":20501}'}])
    (row,) = ImageReader(TABLE).read(image).to_pylist()
    assert (row["unchanged"], row["before"]["code"], row["after"]["code"]) == (["body"], "P1", "P2")
    assert row["before_known"] == ["code", "day"]
