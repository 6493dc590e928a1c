"""Messages read as whole columns are the same as messages read one at a time, whatever stands in them."""

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from txloom.config import find
from txloom.config.models.column_types import parse
from txloom.config.models.pipeline import Column, Table
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.events.goldengate.messages import MessageReader
from txloom.events.images.reader import ImageReader
from txloom.events.images.single_message import ImageMessages

TYPES = (
    "long", "int", "decimal(9,2)", "decimal(38,10)", "double", "float", "boolean", "date", "timestamp", "timestamptz",
    "time", "uuid", "binary", "json", "string", "array<int>",
)  # fmt: skip
NAMES = [f"C{number}" for number in range(len(TYPES))]
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**6), max_value=10**6).map(float),
)
TEXTS = st.one_of(
    st.sampled_from(
        [
            *("1", "-5", "+5", " 5", "0x1F", "1_000", "1e3", "00012", "NaN", "inf", "1.505", "1.50", "-0.00", "", ".5"),
            *("5.", "t", "TRUE", "false", "0", "yes", "2026-11-21", "1969-12-31 00:00:00", "2026-11-21:10:11:12"),
            *("2026-11-21 10:11:12", "2026-11-21T10:11:12.123456", "2026-11-21 10:11:12.1234567", "0000-01-01"),
            *("2026-11-21 10:11:12Z", "2026-11-21 10:11:12.5+01:30", "0001-01-01 00:00:00", "0001-01-01 00:00:00+01"),
            *("9999-12-31 23:59:59.999999", "24:00:00", "23:59:60", "10:11:12", "\\x00ff", "0aFf", "{1,2,NULL}"),
            *("[1]", '{"a": 1}', "12345678901234567890123456.0123456789", "123e4567-e89b-12d3-a456-426614174000"),
            *("123e4567e89b12d3a456426614174000", "2026-02-30", "9223372036854775808", "9999-12-31 23:59:59-02"),
        ]
    ),
    st.text(max_size=5),
    NUMBERS.map(str),
)
VALUES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, TEXTS, TEXTS, st.just({"a": 1.5}), st.just([1, None]))
EXTRA = st.sampled_from(["C1_isMissing", "c2", "NEW", "C0_isMissing"])
IMAGES = st.one_of(
    st.none(),
    st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, VALUES)),
    st.fixed_dictionaries({"C0": st.integers(0, 9)}, optional=dict.fromkeys(NAMES[1:], VALUES)),
    st.dictionaries(st.one_of(st.sampled_from(NAMES), EXTRA), VALUES, max_size=6),
)
MESSAGES = st.fixed_dictionaries({"op_type": st.sampled_from("IUDTu"), "before": IMAGES, "after": IMAGES})


def table(types: tuple[str, ...], **more: Any) -> Table:
    columns = tuple(
        Column(name=name.lower(), type=parse(kind), source=name) for name, kind in zip(NAMES, types, strict=True)
    )
    return Table(name="t", source="S.T", columns=columns, key=("c0",), **more)


def comparable(rows: list[dict[str, Any]]) -> str:
    """Write rows so that NaN equals NaN and 1.0 differs from 1."""
    return "\n".join(map(repr, rows))


@given(st.lists(MESSAGES, min_size=1, max_size=8), st.sampled_from(["ignore", "quarantine"]), st.booleans())
def test_images_are_the_same_by_column_and_by_message(messages: list[Any], undeclared: str, as_bytes: bool) -> None:
    declared = table(TYPES, undeclared_columns=undeclared)
    texts = [json.dumps(message) for message in messages]
    reader, single = ImageReader(declared), ImageMessages(declared)
    expected = pa.Table.from_pylist([single.read(text) for text in texts], reader.schema)
    reader.read(texts[: len(texts) // 2])
    images = reader.read([text.encode() for text in texts] if as_bytes else texts)
    assert images.schema == expected.schema
    assert comparable(images.to_pylist()) == comparable(expected.to_pylist())


@given(st.data(), st.sampled_from(range(len(TYPES))))
def test_columns_of_one_type_are_the_same_by_column_and_by_message(data: st.DataObject, number: int) -> None:
    declared = table((TYPES[0], *[TYPES[number]] * (len(TYPES) - 1)))
    values = data.draw(st.lists(st.one_of(st.none(), TEXTS, NUMBERS), min_size=1, max_size=len(TYPES) - 1))
    image = {"C0": 1, **dict(zip(NAMES[1:], values, strict=False))}
    text = json.dumps({"op_type": "I", "after": image})
    (value,) = ImageReader(declared).read([text]).to_pylist()
    expected = pa.Table.from_pylist([ImageMessages(declared).read(text)], ImageReader(declared).schema).to_pylist()
    assert comparable([value]) == comparable(expected)


PIPELINE = find("orders")
KEYED = st.fixed_dictionaries(
    {},
    optional={"CODE": st.one_of(st.none(), st.text(max_size=3), st.integers(0, 9)), "DISCOUNT": VALUES, "code": VALUES},
)
IDS = st.one_of(
    st.none(),
    st.sampled_from(["1.2.3", "", "7", "007", "9223372036854775807", "1" * 19, "-1", "x"]),
    st.integers(-5, 2**64),
)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "table": st.sampled_from(["PUBLIC.PROMO_CODES", "public.promo_codes", "PUBLIC.AUDIT_LOG", "", None]),
        "op_type": st.sampled_from(["I", "U", "D", "T", "i", "X", None]),
        "op_ts": st.one_of(TEXTS, st.none(), st.integers(0, 2**42), st.booleans()),
        "xid": IDS, "csn": IDS, "pos": IDS,
        "before": st.one_of(st.none(), KEYED), "after": st.one_of(st.none(), KEYED, st.just(5)),
    },
)  # fmt: skip
GOOD = {"table": "PUBLIC.PROMO_CODES", "op_type": "I", "xid": "1.2", "csn": "5", "pos": "6", "after": {"CODE": "a"}}
COUNTS = st.lists(
    st.fixed_dictionaries(
        {
            "data_collection": st.sampled_from(["ORDERS", "orders", "AUDIT_LOG", "S.PROMO_CODES"]),
            "event_count": st.one_of(st.integers(0, 9), st.integers(-1, 2**64)),
        }
    ),
    max_size=4,
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "xid": IDS,
        "csn": IDS,
        "tx_ts": st.one_of(TEXTS, st.none(), st.integers(0, 2**42)),
        "event_count": st.one_of(st.none(), st.integers(0, 9)),
        "data_collections": st.one_of(st.none(), COUNTS),
    },
)


def written(messages: Any) -> Any:
    return messages.map(lambda message: json.dumps(message, separators=(",", ":")).encode())


@given(
    st.lists(st.one_of(written(ROWS), written(ROWS.map(lambda row: GOOD | row)), st.binary(max_size=9), st.none())),
    st.lists(st.one_of(written(METADATA), st.binary(max_size=9))),
)
def test_envelopes_are_the_same_by_column_and_by_message(rows: list[bytes | None], metadata: list[bytes]) -> None:
    topic = PIPELINE.source.transaction_topic
    decoder, single = GoldenGateDecoder(PIPELINE.tables, topic), MessageReader(PIPELINE.tables, topic)
    for name, values in (("rows", rows), (topic, metadata)):
        events, expected = decoder.decode(name, values), single.read(name, values)
        assert events.schema == expected.schema
        assert comparable(events.to_pylist()) == comparable(expected.to_pylist())


def test_a_row_of_an_unwatched_table_is_the_same_by_column_and_by_message() -> None:
    row = {"table": "PUBLIC.AUDIT_LOG", "op_type": "I", "pos": "7", "xid": "x", "csn": "33", "after": {"ID": 1}}
    value = json.dumps(row).encode()
    (event,) = MessageReader(PIPELINE.tables, "metadata").read("rows", [value]).to_pylist()
    assert (event["kind"], event["table"], event["source_table"]) == ("row", None, "PUBLIC.AUDIT_LOG")
    assert GoldenGateDecoder(PIPELINE.tables, "metadata").decode("rows", [value]).to_pylist() == [event]
