"""Numbers and times have one grammar: read by column and by message they are the same, exactly what stands there."""

import json
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from txloom.config.models.column_types import SPARK_TYPES, parse
from txloom.config.models.pipeline import Column, Table
from txloom.events.images.reader import ImageReader
from txloom.events.images.single_message import ImageMessages

DECIMALS = ("decimal(1,0)", "decimal(5,2)", "decimal(20,4)", "decimal(38,0)", "decimal(38,10)", "decimal(38,38)")
ARRAYS = ("array<decimal(20,4)>", "array<timestamp>", "array<double>")
TYPES = (*SPARK_TYPES, *DECIMALS, *ARRAYS)
BOUND = 0.05
"""Seconds of processor time for a short text, by far more than it needs: the slow ones took minutes, or the process."""

DIGITS = st.text("0123456789", max_size=45)
ODD = st.sampled_from(
    ["", "0", "-", "+", " ", "_", "\u0661", "\u0967", "\uff15", "0x", "e", ".", "\n", "\x00", "\xa0", "1"]
)
EXPONENTS = st.one_of(
    st.integers(-50, 50), st.sampled_from([-(10**10), -999999999, -5000000, -400, -325, -323, 308, 309, 400, 10**9])
)
NUMBERS = st.one_of(
    st.builds("{}{}.{}".format, st.sampled_from(["", "-", "-", "+"]), DIGITS, DIGITS),
    st.builds("{}{}e{}".format, st.sampled_from(["", "-"]), DIGITS, EXPONENTS),
    st.builds("{}.{}E{}".format, DIGITS, DIGITS, EXPONENTS),
    st.builds("{}{}{}".format, ODD, DIGITS, ODD),
    st.builds(str, st.floats()),
    st.sampled_from(["1_000", " 5", "5 ", "+5", "\u0661\u0662", "1e-43", "7e-63", "0e-999999999", "0E-10", "1e400"]),
    st.sampled_from(
        ["-0", "-0.000", "NaN", "-inf", "Infinity", "snan", "nan1", "1e", "e1", ".", "1.e1", ".5", "0x1p3"]
    ),
    st.sampled_from(["9007199254740993", "9007199254740993.0", "9.007199254740993e15", "9007199254740992.0", "1e16"]),
    st.sampled_from(["9223372036854775807", "-9223372036854775808", "9223372036854775808", "3.5e38", "1e-46"]),
)
CLOCKS = st.builds(
    "{}{}{}:{:02}:{:02}{}{}".format,
    st.sampled_from(["0000-01-01", "0001-01-01", "1677-09-21", "2026-02-30", "9999-12-31", "20261121", "2026-W01-1"]),
    st.sampled_from([" ", "T", ":", "  ", "t", ""]),
    st.sampled_from(["00", "10", "24", "7", "\u0661\u0662"]),
    st.integers(0, 61),
    st.integers(0, 61),
    st.sampled_from(
        ["", ".", ".5", ",5", ".123456", ".1234567", ".123456000", ".1234560001", ".999999999", "." + "0" * 40]
    ),
    st.sampled_from(
        ["", "Z", "z", "+00", "-02", "+0130", "+01:30", "-00:53:28", "+24:00", "+01:60", " +01:00", " UTC"]
    ),
)
OTHERS = st.sampled_from(
    [
        *("", " ", "\x00", "true", "T", "f", "yes", "null", "NULL", "\\x00ff", "0Xff", "0x0", "00 ff", "\\x"),
        "\u0661f",
        *("{1,2}", "{}", "{NULL}", "[1]", "{1e-43}", "{2026-11-21 10:11:12.1234567}", "{1e400,1}", "{", "}", "{{1}}"),
        *("2026-11-21", "2026-11-21 00:00:00.000", "10:11:12", "10:11:12.1234567", "24:00:00", "24:00:01"),
        *("10:11:12.50", "10:11:12.000", "10:11:12.1234560", "24:00:00.0"),
        "\u0661\u0662:00:00",
        *("123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"),
        "123E4567-E89B-12D3-A456-426614174000",
        "{123e4567-e89b-12d3-a456-426614174000}",
        *("123e4567e89b12d3a45642661417400_", "2026-11-21T10", "2026-11-21 10:11", "infinity", "0044-03-15 BC"),
    ]
)  # fmt: skip
TEXTS = st.one_of(NUMBERS, NUMBERS, CLOCKS, OTHERS, st.text(max_size=6))
SPELLED = {
    "uuid": st.builds(
        lambda given, case, dash: case(str(given).replace("-", dash)),
        st.uuids(),
        st.sampled_from([str.lower, str.upper, str.title]),
        st.sampled_from(["-", "-", ""]),
    ),
    "time": st.builds(
        "{:02}:{:02}:{:02}{}{}".format,
        *(st.integers(0, 25), st.integers(0, 60), st.integers(0, 60)),
        st.sampled_from(["", ".", ".0", ".5", ".123456", ".1234567"]),
        st.sampled_from(["", "0", "000"]),
    ),
    "timestamp": CLOCKS,
    "timestamptz": CLOCKS,
}
"""Texts that are values of a type, or nearly: of the others hardly any is."""


def table(declared: str) -> Table:
    columns = (Column(name="k", type=parse("long"), source="K"), Column(name="v", type=parse(declared), source="V"))
    return Table(name="t", source="S.T", columns=columns, key=("k",))


def is_json(text: str) -> bool:
    """Say whether a text is a JSON number as it stands."""
    try:
        return isinstance(json.loads(text), int | float) and text.strip() == text and text[:1] in "-0123456789"
    except (ValueError, IndexError):
        return False


def message(text: str, *, bare: bool) -> str:
    value = text if bare and is_json(text) else json.dumps(text)
    return f'{{"op_type": "I", "after": {{"K": 1, "V": {value}}}}}'


def both(declared: str, texts: list[str], *, bare: bool) -> list[Any]:
    """Read values by column, and compare with the reading of single messages; a problem is returned as text."""
    messages = [message(text, bare=bare) for text in texts]
    reader, single = ImageReader(table(declared)), ImageMessages(table(declared))
    began = time.process_time()
    images = reader.read(messages).to_pylist()
    alone = pa.Table.from_pylist([single.read(each) for each in messages], reader.schema).to_pylist()
    assert time.process_time() - began < BOUND * (1 + len(texts))
    assert list(map(repr, images)) == list(map(repr, alone))
    return [f"problem: {row['problem']}" if row["problem"] else row["after"]["v"] for row in images]


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Return a type, and texts for values of it: most of them of its kind, and one or two of any."""
    declared = draw(st.sampled_from(TYPES))
    return declared, draw(st.lists(SPELLED.get(declared, TEXTS) | TEXTS, min_size=1, max_size=6))


@given(columns(), st.booleans())
@example(("decimal(20,4)", ["0e-999999999", "1e-5000000", "1e-10000000", "1e999999999"]), True)
@example(("decimal(20,4)", ["1.5", "1e-43"]), True)
@example(("decimal(38,38)", ["7."]), False)
@example(("double", ["1.5", "1e-400"]), True)
@example(("float", ["1.5", "1e39"]), False)
@example(("uuid", ["123E4567-e89B-12D3-A456-42661417400F"]), False)
@example(("uuid", ["123E4567E89B12D3A45642661417400F"]), False)
@example(("time", ["10:11:12.500"]), False)
@example(("time", ["10:11:12.500", "24:00:00.0"]), False)
def test_a_value_is_the_same_by_column_and_by_message_and_takes_no_time(
    column: tuple[str, list[str]], bare: bool
) -> None:
    declared, texts = column
    for text, value in zip(texts, both(declared, texts, bare=bare), strict=True):
        assert_exact(declared, text, value)
        (alone,) = both(declared, [text], bare=bare)
        assert repr(alone) == repr(value)


def spelled_time(text: str) -> str:
    """Write a time of day as PostgreSQL prints it."""
    clock, _, part = text.partition(".")
    return f"{clock}.{part.strip()}".rstrip("0").rstrip(".") if part else clock


def assert_exact(declared: str, text: str, value: Any) -> None:
    """A number that was read is the number that stands there, or for a double the nearest to it."""
    if isinstance(value, str):
        spelled = {"uuid": lambda: str(UUID(text)), "time": lambda: spelled_time(text)}.get(declared, lambda: text)
        assert value.startswith("problem: ") or value == spelled()
    elif isinstance(value, bool) or declared in ("binary", "date") or isinstance(value, list):
        assert text.isascii()
    elif isinstance(value, int | Decimal):
        assert text.isascii()
        assert value == Decimal(text)
    elif isinstance(value, float):
        assert text.isascii()
        assert repr(abs(value)) in ("inf", "nan") or (value == 0) == (Decimal(text) == 0)
        assert (repr(abs(value)) in ("inf", "nan")) == (text.strip("-")[:1].lower() in "in")
    else:
        digits = text.partition(".")[2].partition("+")[0].partition("-")[0].rstrip("Z").rstrip("0")
        assert len(digits) <= 6
        assert f".{value:%f}".rstrip("0").rstrip(".") == (f".{digits}" if digits else "")


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        *[(kind, text) for kind in ("long", "decimal(20,4)", "double") for text in ("1_000", " 5", "+5", "")],
        *[(kind, "\u0661\u0662") for kind in ("long", "decimal(20,4)", "double")],
        *[("decimal(20,4)", text) for text in ("1e-43", "7e-63", "0e-999999999", "1e-5000000", "1e-10000000", "NaN")],
        *[("long", text) for text in ("9007199254740993.0", "9.007199254740993e15", "1e16", "-1.8e16", "1e-1")],
        *[("double", text) for text in ("1e400", "-1e400", "1e-400", "snan")],
        *[("float", text) for text in ("3.5e38", "1e400", "1e-46")],
        *[("timestamp", f"2026-11-21 10:11:12{part}") for part in (".1234567", ".1234560001", ",5", "Z")],
        *[("timestamptz", text) for text in ("2026-11-21 10:11:12.1234567Z", "2026-W01-1", "0001-01-01 00:00:00+01")],
        *[("date", text) for text in ("\u0662026-11-21", "20261121", "2026-02-30")],
        *[("uuid", "123e4567e89b12d3a45642661417400_"), ("binary", "00 ff"), ("time", "\u0661\u0662:00:00")],
    ],
)  # fmt: skip
def test_what_its_type_does_not_hold_exactly_is_a_problem(declared: str, text: str) -> None:
    article = "an" if declared[0] in "aeiou" else "a"
    for bare in (False, True):
        assert both(declared, [text], bare=bare) == [f"problem: V: {text!r} is not {article} {declared}"]


@pytest.mark.parametrize(
    ("declared", "text", "value"),
    [
        ("long", "9007199254740992.0", 2**53),
        ("long", "1e3", 1000),
        ("long", "-00012", -12),
        ("decimal(38,38)", "-0." + "9" * 38, Decimal("-0." + "9" * 38)),
        ("decimal(5,2)", "0E-10", Decimal("0.00")),
        ("decimal(5,2)", "0e9999", Decimal("0.00")),
        ("long", "0E-400", 0),
        ("decimal(5,2)", "1.2e2", Decimal("120.00")),
        ("decimal(20,4)", "1.500000000000000000000000000000000000000", Decimal("1.5000")),
        ("double", "5e-324", 5e-324),
        ("double", "-0.0", -0.0),
        ("float", "0.1", 0.10000000149011612),
        ("timestamp", "9999-12-31 23:59:59.999999000", datetime(9999, 12, 31, 23, 59, 59, 999_999)),
        ("timestamptz", "1900-01-01 00:00:00+00:53:28", datetime(1899, 12, 31, 23, 6, 32, tzinfo=UTC)),
        ("date", "0001-01-01", date(1, 1, 1)),
    ],
)
def test_what_its_type_holds_is_read_to_its_last_digit(declared: str, text: str, value: Any) -> None:
    for bare in (False, True):
        (image,) = both(declared, [text], bare=bare)
        assert (image, type(image), str(image).removesuffix("+00:00")) == (
            value,
            type(value),
            str(value).removesuffix("+00:00"),
        )
