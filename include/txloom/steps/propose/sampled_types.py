"""The type of a column out of values that were seen: the narrowest that holds them all, always a guess."""

import json
import re
from collections.abc import Iterable
from typing import Any

from txloom.config.models.column_types import MOST_DIGITS

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
DATE = re.compile(r"\d{4}-\d\d-\d\d")
TIME = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?")
ZONED = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)")
WHOLE = re.compile(r"-?(0|[1-9]\d*)")
DECIMAL = re.compile(r"-?\d+\.(\d+)")
BOOLEAN = re.compile(r"true|false", re.IGNORECASE)
LONGS = range(-(2**63), 2**63)
MICROSECONDS = range(10**15, 4 * 10**15)
"""From 2001 to 2096."""
ELEMENTS = ("long", "string", "double", "boolean", "decimal", "date", "uuid", "timestamptz", "timestamp")


def sampled_type(values: Iterable[Any]) -> tuple[str, str]:
    """Return a type for JSON values, or for texts of a source that writes all as text; and why it is a guess.

    >>> sampled_type(["1.50", None, "20.125"])
    ('decimal(38,3)', 'from 2 values; say how wide')
    >>> sampled_type(["2026-01-05 09:00:00", "2026-01-05"])[0], sampled_type([None])
    ('string', ('string', 'no value was seen'))
    >>> sampled_type([[1], [], [None, 7]])[0], sampled_type(['{"a": 1}', "[]"])[0], sampled_type(["007"])[0]
    ('array<long>', 'json', 'string')
    """
    seen = [value for value in values if value is not None]
    if not seen:
        return "string", "no value was seen"
    what = f"from {len(seen)} value{'s' if len(seen) > 1 else ''}"
    if all(isinstance(value, list) for value in seen):
        element, guess = sampled_type(each for value in seen for each in value)
        return (f"array<{element}>" if element.partition("(")[0] in ELEMENTS else "json"), guess
    kinds = {_kind(value) for value in seen}
    if kinds <= {"long", "decimal"} and "decimal" in kinds:
        scale = max((len(match[1]) for value in seen if (match := DECIMAL.fullmatch(str(value)))), default=0)
        return f"decimal({MOST_DIGITS},{min(scale, MOST_DIGITS)})", f"{what}; say how wide"
    if kinds == {"long"} and all(isinstance(value, int) and value in MICROSECONDS for value in seen):
        return "timestamp", f"{what}, which may be microseconds since 1970"
    return (kinds.pop() if len(kinds) == 1 else "string"), what


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long" if value in LONGS else "string"
    if isinstance(value, float):
        return "double"
    return "json" if isinstance(value, dict | list) else _kind_of_text(str(value))


def _kind_of_text(text: str) -> str:
    if WHOLE.fullmatch(text):
        return "long" if int(text) in LONGS else "string"
    if text[:1] in ("{", "[") and _is_json(text):
        return "json"
    shapes = {
        "decimal": DECIMAL, "uuid": UUID, "date": DATE, "time": TIME,
        "timestamp": TIMESTAMP, "timestamptz": ZONED, "boolean": BOOLEAN,
    }  # fmt: skip
    return next((kind for kind, shape in shapes.items() if shape.fullmatch(text)), "string")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
