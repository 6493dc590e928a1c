"""Any text under any declared type is read as the value that it means, or its row is refused: never another value."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawn import examples
from oracle import comparison
from txloom.config.models.column_types import ColumnType, parse
from txloom.config.models.pipeline import Column, Table
from txloom.events.images.reader import ImageReader
from workloads.sources.json_text import Bare, written

NUMBER = re.compile(r"(-?)(?=\.?[0-9])([0-9]*)(\.[0-9]*)?(?:[eE]([+-]?[0-9]{1,4}))?", re.ASCII)
"""A number (ADR 27): at most a minus, digits with a point in front of, among or behind them, an exponent."""
JSON = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
HIGHEST = 76
"""The highest exponent of a decimal or whole number, up or down."""
NAMED = ("nan", "inf", "-inf", "infinity", "-infinity")


def exact(text: str) -> tuple[int, int] | None:
    """Return a number's digits and its exponent; None for what is none, or has a higher exponent than may be."""
    match = NUMBER.fullmatch(text)
    if match is None or abs(int(match[4] or 0)) > HIGHEST:
        return None
    sign, whole, rest, power = match[1], match[2], (match[3] or "")[1:], match[4]
    digits = (whole + rest).lstrip("0")
    exponent = int(power or 0) - len(rest)
    kept = digits.rstrip("0")
    return int(f"{sign}{kept or 0}"), exponent + len(digits) - len(kept) if kept else 0


def as_decimal(declared: ColumnType) -> Callable[[str], Any]:
    """Return what reads a number of so many digits: all of them, or none."""
    precision, scale = declared.precision, declared.scale

    def read(text: str) -> Any:
        number = exact(text)
        if number is None or (number[0] and not 0 <= number[1] + scale <= precision):
            return None
        unscaled = number[0] * 10 ** (number[1] + scale) if number[0] else 0
        return Decimal(f"{unscaled}E-{scale}") if abs(unscaled) < 10**precision else None

    return read


def as_integer(bits: int) -> Callable[[str], Any]:
    """Return what reads a whole number; one with a point or an exponent was a double, which knows 2**53 of them."""

    def read(text: str) -> Any:
        number = exact(text)
        if number is None or number[1] < 0 or number[1] > 20:
            return None
        value = number[0] * 10 ** number[1]
        is_known = text.lstrip("-").isdigit() or abs(value) <= 2**53
        return value if is_known and -(2**bits) <= value < 2**bits else None

    return read


digits = st.text("0123456789", min_size=1, max_size=45)
powers = st.one_of(st.just(""), st.integers(-60, 60).map(lambda n: f"e{n}"), st.sampled_from(("E+2", "e-43", "e5")))
numbers = st.builds(
    lambda sign, whole, rest, power: f"{sign}{whole}{rest}{power}",
    st.sampled_from(("", "-")),
    digits.map(lambda text: text.lstrip("0") or "0"),
    st.one_of(st.just(""), digits.map(lambda text: f".{text}")),
    powers,
)
odd = st.sampled_from(
    (
        *("", " 5", "5 ", "+5", "1_000", "\u0665", "0x1", "--1", "1e", "e1", ".", "-", "-.e1", "\uff11"),
        *("1.", ".5", "-.5", "-0.", "1.e3", "NaN", "Infinity", "-inf", "9" * 1000, "1e-5000000", "0e5000000"),
    )
)
"""Texts that are no numbers, or hardly ones."""
decimals = st.builds(lambda p, s: f"decimal({p},{min(p, s)})", st.integers(1, 38), st.integers(0, 38))


def read(kind: str, texts: list[str], *, bare: bool) -> list[tuple[Any, str | None]]:
    """Read values as a release does, all at once; return each, and what is wrong with its row."""
    columns = (Column(name="id", type=parse("long")), Column(name="v", type=parse(kind)))
    reader = ImageReader(Table(name="t", source="APP.T", columns=columns, key=("id",)))
    images = [{"ID": Bare(number), "V": Bare(text) if bare else text} for number, text in enumerate(texts)]
    read_images = reader.read(
        [f'{{"op_type":"I","before":null,"after":{written(image)}}}'.encode() for image in images]
    )
    values = [None if image is None else image["v"] for image in read_images.column("after").to_pylist()]
    return list(zip(values, read_images.column("problem").to_pylist(), strict=True))


def assert_read(kind: str, texts: list[str], meant: Callable[[str], Any], *, bare: bool) -> None:
    """A text that means a value of the type is read as it; any other is refused."""
    for text, (value, problem) in zip(texts, read(kind, texts, bare=bare), strict=True):
        expected = meant(text)
        if problem is None:
            assert expected is not None, f"{text!r} was read as {value!r}, a {kind}"
            assert comparison.same(expected, value), f"{text!r} was read as {value!r}, a {kind}"
        else:
            assert expected is None, f"{text!r} is a {kind}: {problem}"


@settings(max_examples=examples(150), deadline=None)
@given(decimals, st.lists(st.one_of(numbers, numbers, odd), min_size=1, max_size=8))
@example("decimal(20,4)", ["1e-43"])
@example("decimal(20,4)", ["7e-63", "1"])
@example("decimal(38,0)", ["0.5"])
def test_a_decimal_is_read_with_all_its_digits_or_refused(kind: str, texts: list[str]) -> None:
    assert_read(kind, texts, as_decimal(parse(kind)), bare=False)
    assert_read(kind, plain_json(texts), as_decimal(parse(kind)), bare=True)


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(("long", "int")), st.lists(st.one_of(numbers, numbers, odd), min_size=1, max_size=8))
def test_an_integer_is_read_or_refused(kind: str, texts: list[str]) -> None:
    bits = {"long": 63, "int": 31}[kind]
    assert_read(kind, texts, as_integer(bits), bare=False)
    assert_read(kind, plain_json(texts), as_integer(bits), bare=True)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.one_of(numbers, numbers, odd), min_size=1, max_size=8))
@example(["9007199254740993"])
@example(["1e400"])
def test_a_double_is_the_nearest_one_or_refused(texts: list[str]) -> None:
    assert_read("double", texts, as_double, bare=False)
    assert_read("double", plain_json(texts), as_double, bare=True)


def as_double(text: str) -> Any:
    """Return the double nearest to a number; None where that is infinite, or zero for what is not zero."""
    if text.lower() in NAMED:
        return float(text)
    if NUMBER.fullmatch(text) is None:
        return None
    number, is_zero = float(text), not re.search("[1-9]", text.lower().partition("e")[0])
    return None if number in (float("inf"), float("-inf")) or (number == 0 and not is_zero) else number


def plain_json(texts: list[str]) -> list[str]:
    """Return those that are numbers of JSON."""
    return [text for text in texts if JSON.fullmatch(text)] or ["1"]


moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))
further = st.sampled_from(("", "0", "1", "000", "123"))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(moments, further, st.sampled_from((" ", "T"))), min_size=1, max_size=6))
def test_a_moment_keeps_every_digit_of_its_second_or_is_refused(moments: list[tuple[datetime, str, str]]) -> None:
    texts = [f"{at:%H:%M:%S.%f}{more}" for at, more, _ in moments]
    texts = [f"{at.date().isoformat()}{sep}{text}" for (at, _, sep), text in zip(moments, texts, strict=True)]
    expected = {text: None if more.strip("0") else at for text, (at, more, _) in zip(texts, moments, strict=True)}
    assert_read("timestamp", texts, expected.get, bare=False)
    zoned = {f"{text}+00:00": at and at.replace(tzinfo=UTC) for text, at in expected.items()}
    assert_read("timestamptz", list(zoned), zoned.get, bare=False)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.dates(), min_size=1, max_size=6))
def test_a_day_is_read(days: list[date]) -> None:
    assert_read("date", [str(day) for day in days], date.fromisoformat, bare=False)
