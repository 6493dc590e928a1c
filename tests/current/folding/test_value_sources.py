"""Values pass through exactly, whatever their type; keys may be of any scalar type."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from current.texts import change_schema
from txloom.current.folding import value_sources
from txloom.current.folding.fold import fold

SYSTEM_COLUMNS = [("_txloom_csn", pa.int64()), ("_txloom_pos", pa.int64()), ("_txloom_xid", pa.string())]
LINES = pa.list_(pa.struct([("sku", pa.string()), ("price", pa.decimal128(9, 2))]))
NESTED = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int32()))])
VALUES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "decimal": (pa.decimal128(38, 10), Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001")),
    "instant": (pa.timestamp("us", "UTC"), datetime(1582, 10, 4, 0, 0, 0, 9, UTC), datetime(9999, 1, 1, tzinfo=UTC)),
    "local": (pa.timestamp("us"), datetime(2024, 3, 31, 2, 30, 0, 1), datetime(1, 1, 1)),
    "day": (pa.date32(), date(1, 1, 1), date(9999, 12, 31)),
    "binary": (pa.binary(), b"\x00\xff", b""),
    "text": (pa.string(), "\u202eabc\x00'\"\\", ""),
    "long": (pa.int64(), 2**63 - 1, -(2**63)),
    "int": (pa.int32(), -1, 0),
    "double": (pa.float64(), float("inf"), -0.0),
    "flag": (pa.bool_(), True, False),
    "texts": (pa.list_(pa.string()), ["a", None, ""], []),
    "lines": (LINES, [{"sku": "x", "price": Decimal("1.10")}, None], []),
    "nested": (NESTED, {"a": None, "b": [1, None]}, {"a": 1, "b": None}),
}
COLUMNS = ["id", *VALUES]
ROWS = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _, _) in VALUES.items()), *SYSTEM_COLUMNS])
CHANGES = change_schema(ROWS, COLUMNS)


def image(which: int) -> dict[str, Any]:
    return {name: values[which] for name, values in VALUES.items()}


def row(key: int, which: int) -> dict[str, Any]:
    return {"id": key, **image(which), "_txloom_csn": 1, "_txloom_pos": key, "_txloom_xid": "x"}


def change(op: str, csn: int, key: int, image: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = {f"_txloom_{name}": value for name, value in more.items()}
    return {"id": key, **image, "_txloom_op": op, "_txloom_csn": csn, "_txloom_pos": 1, "_txloom_xid": "x", **given}


def folded(rows: list[dict[str, Any]], changes: list[dict[str, Any]], *, chunks: int = 1) -> dict[int, dict[str, Any]]:
    """Fold tables of several chunks; check that the types are those of the rows."""
    table = pa.concat_tables([pa.Table.from_pylist(changes[i::chunks], CHANGES) for i in range(chunks)])
    folded_rows = fold(pa.Table.from_pylist(rows, ROWS), table, key=["id"], columns=COLUMNS)
    verdict = [("_txloom_deleted", pa.bool_()), ("_txloom_missing", pa.list_(pa.string()))]
    assert folded_rows.schema == pa.schema([*ROWS, *verdict])
    return {line["id"]: {name: line[name] for name in VALUES} for line in folded_rows.to_pylist()}


@pytest.mark.parametrize("chunks", [1, 3])
def test_new_values_pass_through(chunks: int) -> None:
    changes = [change("I", 2, 1, image(1)), change("U", 3, 2, image(2)), change("U", 4, 2, image(1))]
    assert folded([row(2, 2)], changes, chunks=chunks) == {1: image(1), 2: image(1)}


def test_unchanged_values_pass_through() -> None:
    changes = [change("U", 2, 1, {}, unchanged=list(VALUES)), change("U", 3, 1, {}, unchanged=list(VALUES))]
    assert folded([row(1, 1), row(2, 2)], changes) == {1: image(1)}


def test_values_move_with_their_key() -> None:
    moved = {"before": {"id": 1}, "before_known": ["id"]}
    gone = dict.fromkeys(VALUES)
    changes = [change("U", 2, 3, {}, unchanged=list(VALUES), **moved)]
    assert folded([row(1, 1), row(2, 2)], changes) == {1: gone, 3: image(1)}


def test_values_of_the_image_before_pass_through() -> None:
    fields = {"before": {"id": 1, **image(2)}, "before_known": COLUMNS}
    assert folded([], [change("U", 2, 1, {}, unchanged=list(VALUES), **fields)]) == {1: image(2)}
    assert folded([], [change("U", 2, 3, {}, unchanged=list(VALUES), **fields)])[3] == image(2)


def test_changes_are_brought_to_the_types_of_the_rows() -> None:
    narrow = pa.schema([("id", pa.int32()), ("text", pa.large_string())])
    changes = pa.Table.from_pylist([change("I", 2, 1, {"text": "new"})], change_schema(narrow, ["id", "text"]))
    wide = pa.schema([("id", pa.int64()), ("text", pa.string()), *SYSTEM_COLUMNS])
    folded_rows = fold(wide.empty_table(), changes, key=["id"], columns=["id", "text"])
    assert folded_rows.select(["id", "text"]).schema == pa.schema([("id", pa.int64()), ("text", pa.string())])


def test_text_may_be_longer_in_total_than_one_array_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_sources, "PLAIN_BYTES", 40)
    texts = {key: {**image(1), "text": "x" * key, "binary": None if key % 3 else b"y" * key} for key in range(1, 25)}
    changes = [change("I", 2, key, texts[key]) for key in texts]
    assert folded([row(key, 1) for key in texts], changes, chunks=3) == texts


SCALARS = [name for name in VALUES if name not in ("texts", "lines", "nested")]


@pytest.mark.parametrize("name", SCALARS)
def test_a_key_may_be_of_any_scalar_type(name: str) -> None:
    kind, first, second = VALUES[name]
    rows = pa.schema([("k", kind), ("v", pa.int64()), *SYSTEM_COLUMNS])
    system_columns = {"_txloom_xid": "x", "_txloom_pos": 1}
    changes = [
        {"k": first, "v": 2, "_txloom_op": "U", "_txloom_csn": 2, **system_columns},
        {"k": second, "v": None, "_txloom_op": "U", "_txloom_csn": 3, "_txloom_unchanged": ["v"], **system_columns}
        | {"_txloom_before": {"k": first}, "_txloom_before_known": ["k"]},
    ]
    given = pa.Table.from_pylist([{"k": first, "v": 1, "_txloom_csn": 1, **system_columns}], rows)
    table = pa.Table.from_pylist(changes, change_schema(rows, ["k", "v"]))
    folded_rows = fold(given, table, key=["k"], columns=["k", "v"])
    effects = {line["k"]: (line["v"], line["_txloom_deleted"]) for line in folded_rows.to_pylist()}
    assert effects == {first: (None, True), second: (2, False)}
