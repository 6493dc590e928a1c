"""Declared types: what they hold, what they are in Spark, and which texts are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.config.models.column_types import SPARK_TYPES, ColumnType, parse
from txloom.config.problems import Unfit


@pytest.mark.parametrize(
    ("declared", "spark"),
    [
        ("long", "bigint"),
        ("int", "int"),
        ("double", "double"),
        ("float", "float"),
        ("boolean", "boolean"),
        ("string", "string"),
        ("date", "date"),
        ("timestamp", "timestamp_ntz"),
        ("timestamptz", "timestamp"),
        ("time", "string"),
        ("binary", "binary"),
        ("uuid", "string"),
        ("json", "string"),
        ("decimal(38,10)", "decimal(38,10)"),
        ("array<timestamptz>", "array<timestamp>"),
        ("array<decimal(20,4)>", "array<decimal(20,4)>"),
    ],
)
def test_every_type_is_one_in_spark_and_says_its_own_name(declared: str, spark: str) -> None:
    assert parse(declared).spark == spark
    assert str(parse(declared)) == declared


def test_a_decimal_knows_its_digits() -> None:
    assert parse("decimal( 20, 4 )") == ColumnType("decimal", 20, 4)


def test_an_array_knows_its_elements() -> None:
    assert parse("array< decimal(5,0) >") == ColumnType("array", element=ColumnType("decimal", 5, 0))


def test_a_parsed_type_is_a_type() -> None:
    assert parse(parse("long")) == parse("long")


scalars = st.one_of(
    st.sampled_from(sorted(SPARK_TYPES)),
    st.integers(1, 38).flatmap(lambda digits: st.integers(0, digits).map(lambda scale: f"decimal({digits},{scale})")),
)


@given(scalars)
def test_what_a_type_says_of_itself_is_the_same_type(declared: str) -> None:
    assert parse(str(parse(declared))) == parse(declared)


@given(st.text(max_size=40) | st.from_regex(r"(array<|decimal\()?[a-z0-9(),<>\[\] ]*", fullmatch=True))
def test_any_other_text_is_refused_in_words(text: str) -> None:
    try:
        assert parse(str(parse(text))) == parse(text)
    except Unfit as unfit:
        assert unfit.expected


@pytest.mark.parametrize("declared", [5, None, True, ["long"], {"type": "long"}])
def test_what_is_no_text_is_no_type(declared: object) -> None:
    with pytest.raises(Unfit):
        parse(declared)


@pytest.mark.parametrize(
    ("declared", "hint"),
    [
        ("LONG", "Did you mean 'long'?"),
        ("integer", "Did you mean 'int'?"),
        ("short", "Did you mean 'int'?"),
        ("double precision", "Did you mean 'double'?"),
        ("bytea", "Did you mean 'binary'?"),
        ("jsonb", "Did you mean 'json'?"),
        ("number(10)", "Did you mean 'decimal(10,0)'?"),
        ("timestamp with time zone", "Did you mean 'timestamptz'?"),
        ("timestamp(6) without time zone", "Did you mean 'timestamp'?"),
        ("int4[]", "Did you mean 'array<int>'?"),
        ("colour", ""),
    ],
)
def test_a_databases_type_is_answered_with_ours(declared: str, hint: str) -> None:
    with pytest.raises(Unfit) as unfit:
        parse(declared)
    assert unfit.value.hint == hint
