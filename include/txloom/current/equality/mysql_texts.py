"""The same texts as `canonical_texts`, written by MySQL or MariaDB, so that only their digests have to be read.

The session's time zone is UTC, and its character set utf8mb4. A date that is zero is none: Debezium sends null, or the
first day of 1970 where the column takes no null.
"""

from collections.abc import Sequence
from typing import NamedTuple

from txloom.config.models.column_types import ColumnType
from txloom.current.equality.canonical_texts import NULL

WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint")
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")

STEP = 15
"""Places by which a point is moved at once."""


class Held(NamedTuple):
    """What a column holds.

    Args:
        base: the name of its type, as `information_schema` has it in data_type.
        is_nullable: whether it takes null.
        bits: of a column of bits how many.
    """

    base: str
    is_nullable: bool = True
    bits: int = 0


def canonical(value: str, held: Held, declared: ColumnType) -> str:
    """Return the SQL expression of a value's canonical text.

    Args:
        value: a SQL expression.
        held: what the column holds.
        declared: the type that it has in the lake.

    >>> canonical("x", Held("decimal"), ColumnType("decimal", 20, 4))
    "trim(trailing '.' from trim(trailing '0' from cast(x * 10000.0 as char)))"
    """
    kind = declared.kind
    if held.base == "bit":
        return _of_bits(value, held.bits, kind)
    if kind == "decimal":
        exact = f"cast({value} as decimal(65, 30))" if held.base in ("double", "float", *TEXTS) else value
        return _without_zeros(f"cast({_shifted(exact, declared.scale)} as char)")
    if kind in ("double", "float"):
        return _float(f"({value} * 1e0)", *((11, 52) if kind == "double" else (8, 23)))
    if kind == "boolean":
        return f"case when {value} = 0 then 'f' when {value} is not null then 't' end"
    if kind == "date":
        return _or_epoch(f"cast(to_days({value}) - 719528 as char)", value, held)
    if kind in ("timestamp", "timestamptz"):
        micros = f"timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', {value})"
        return _or_epoch(f"cast({micros} as char)", value, held)
    if kind == "binary":
        return f"lower(hex({value}))"
    if held.base == "time" and kind == "long":
        begin = "timestamp'1970-01-01 00:00:00'"
        return f"cast(timestampdiff(microsecond, {begin}, addtime({begin}, {value})) as char)"
    if held.base == "time":
        return _without_zeros(f"cast(cast({value} as time(6)) as char)")
    if held.base in (*WHOLE, "year"):
        return f"cast({value} + 0 as char)"
    return f"convert({value} using utf8mb4)" if held.base in TEXTS else f"cast({value} as char)"


def row_digest(texts: Sequence[str]) -> str:
    """Return the SQL expression of a row's digest, of the columns with its canonical texts.

    MySQL has no MD5 since version 9.6.

    >>> row_digest(["c0"])
    "cast(conv(substr(sha2(concat(coalesce(concat(octet_length(c0), ':', c0), '~')), 256), 1, 16), 16, -10) as signed)"
    """
    measured = ", ".join(f"coalesce(concat(octet_length({text}), ':', {text}), '{NULL}')" for text in texts)
    return f"cast(conv(substr(sha2(concat({measured}), 256), 1, 16), 16, -10) as signed)"


def _shifted(number: str, places: int) -> str:
    """Return a decimal with its point so many places to the right, and one behind it.

    The server cuts digits off where both factors have more than 81 together: there are several factors.
    """
    factors = [f"1{'0' * STEP}"] * (places // STEP) + [f"1{'0' * (places % STEP)}.0"]
    return " * ".join([number, *factors])


def _without_zeros(text: str) -> str:
    """Return a number's text, which has a point, without zeros at its end."""
    return f"trim(trailing '.' from trim(trailing '0' from {text}))"


def _or_epoch(text: str, value: str, held: Held) -> str:
    """Return the text of a time, and that of 1970 for zero where the connector sends that."""
    if held.is_nullable and held.base != "timestamp":
        return text
    return f"case when {value} is not null then coalesce({text}, '0') end"


def _of_bits(value: str, bits: int, kind: str) -> str:
    """Bits come as bytes, the lowest first; with a schema they are numbers, or texts of digits."""
    if kind == "boolean":
        return f"case when {value} + 0 = 0 then 'f' when {value} is not null then 't' end"
    if kind == "binary":
        return f"lower(hex(reverse(unhex(lpad(hex({value} + 0), {(bits + 7) // 8 * 2}, '0')))))"
    return f"lpad(bin({value} + 0), {bits}, '0')" if kind == "string" else f"cast({value} + 0 as char)"


def _float(number: str, exponent_bits: int, fraction_bits: int) -> str:
    """Return the bits of a number as a signed integer, by arithmetic that rounds nothing.

    Powers of two are exact. The logarithm is not: it may be one too high or too low.
    """
    bias = (1 << (exponent_bits - 1)) - 1
    size, lowest, one = f"abs({number})", 1 - bias, 1 << fraction_bits
    near = f"least(greatest(floor(log2({size})), {lowest}), {bias})"
    part = f"{size} / pow(2, {near})"
    exponent = f"greatest({near} - ({part} < 1) + ({part} >= 2), {lowest})"
    bits = f"cast({exponent} - {lowest} as signed) * {one} + cast({size} / pow(2, {exponent}) * {one} as signed)"
    negative = -(1 << (exponent_bits + fraction_bits))
    zero = f"case when left(cast({number} as char), 1) = '-' then {negative} else 0 end"
    return (
        f"cast(case when {number} = 0 then {zero} when {number} < 0 then {negative} + ({bits}) else {bits} end as char)"
    )
