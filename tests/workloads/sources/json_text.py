"""JSON whose numbers stand as a source writes them, digit by digit."""

import json
from typing import Any


class Bare(str):
    """Text that stands in JSON as it is, without quotes."""

    __slots__ = ()


def written(value: Any, *, ascii_only: bool = False) -> str:
    """Write a value as JSON."""
    if isinstance(value, Bare):
        return str(value)
    if isinstance(value, dict):
        parts = [f"{written(k, ascii_only=ascii_only)}:{written(v, ascii_only=ascii_only)}" for k, v in value.items()]
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(written(each, ascii_only=ascii_only) for each in value) + "]"
    return json.dumps(value, ensure_ascii=ascii_only)
