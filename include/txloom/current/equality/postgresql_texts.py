"""The same texts as `canonical_texts`, written by PostgreSQL, so that only their digests have to be read."""

from collections.abc import Sequence

from txloom.config.models.column_types import ColumnType
from txloom.current.equality.canonical_texts import NULL, Form

FORMS: dict[str, Form] = {"bpchar": "padded", "numeric": "numeric", "float8": "double", "float4": "single"}
"""By type, without domains and arrays around it, how a column that is declared a text writes equal values."""


def canonical(value: str, declared: ColumnType, base: str = "") -> str:
    """Return the SQL expression of a value's canonical text.

    Args:
        value: a SQL expression.
        declared: the type that the column has in the lake.
        base: the column's type in the database, without domains and arrays around it; "": another one than in FORMS.

    >>> canonical("x", ColumnType("decimal", 20, 4))
    'trim_scale(x::numeric * 1e4)::text'
    >>> canonical("x", ColumnType("string"), "float8")
    'trim_scale(x::text::numeric)::text'
    """
    kind = declared.kind
    if declared.element is not None:
        element = canonical("e", declared.element, base)
        each = f"case when t is null then '{NULL}' else octet_length(t) || ':' || t end"
        texts = f"select {element} as t, n from unnest({value}) with ordinality as u(e, n)"
        joined = f"select coalesce(string_agg({each}, '' order by n), '') from ({texts}) a"
        return f"case when {value} is not null then ({joined}) end"
    if kind == "decimal":
        return f"trim_scale({value}::numeric * 1e{declared.scale})::text"
    if kind in ("double", "float"):
        bits, number, size = ("8", "bigint", 64) if kind == "double" else ("4", "int", 32)
        return f"('x' || encode(float{bits}send({value}::float{bits}), 'hex'))::bit({size})::{number}::text"
    if kind == "binary":
        return f"encode({value}, 'hex')"
    if kind == "boolean":
        return f"case when {value} then 't' when not {value} then 'f' end"
    if kind == "date":
        return f"case when isfinite({value}) then ({value} - date '1970-01-01')::text else {value}::text end"
    if kind in ("timestamp", "timestamptz"):
        micros = f"(extract(epoch from {value}) * 1000000)::bigint::text"
        return f"case when isfinite({value}) then {micros} else {value}::text end"
    if kind == "string" and FORMS.get(base) in ("double", "single"):
        return f"trim_scale({value}::text::numeric)::text"
    return f"{value}::text"


def row_digest(texts: Sequence[str]) -> str:
    """Return the SQL expression of a row's digest, of the columns with its canonical texts.

    >>> row_digest(["c0"])
    "('x' || encode(substr(sha256(convert_to(concat(coalesce(octet_length(c0) || ':' || c0, '~')), 'UTF8')), 1, 8), \
'hex'))::bit(64)::bigint"
    """
    measured = ", ".join(f"coalesce(octet_length({text}) || ':' || {text}, '{NULL}')" for text in texts)
    return f"('x' || encode(substr(sha256(convert_to(concat({measured}), 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint"
