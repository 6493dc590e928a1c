"""Say where two states differ: table, key, column, what was expected and what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Rows = Mapping[tuple[Any, ...], Mapping[str, Any]]


class _Missing:
    def __repr__(self) -> str:
        return "(missing)"


MISSING = _Missing()
WHOLE_ROW = "(row)"


@dataclass(frozen=True)
class Difference:
    """One value that is not as expected; MISSING stands for a row, column or field that is not there."""

    table: str
    key: tuple[Any, ...]
    column: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        key = ", ".join(str(part) for part in self.key)
        return f"{self.table}[{key}].{self.column}: expected {self.expected!r}, found {self.actual!r}"


def keyed(rows: Iterable[Mapping[str, Any]], key: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return rows under their key; raise ValueError when one key names two rows."""
    by_key: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        name = tuple(row[column] for column in key)
        if name in by_key:
            raise ValueError(f"two rows under key {name}")
        by_key[name] = dict(row)
    return by_key


def differences(
    expected: Mapping[str, Rows], actual: Mapping[str, Rows], ignoring: str = "_txloom_"
) -> list[Difference]:
    """Return every difference, in a stable order; columns whose name begins with `ignoring` are not compared."""
    return [
        difference
        for table in sorted({*expected, *actual})
        for difference in _table_differences(table, expected.get(table, {}), actual.get(table, {}), ignoring)
    ]


def report(differences: list[Difference], limit: int = 20) -> str:
    """Return the differences as text, one a line, the first of many."""
    rest = [f"... and {len(differences) - limit} more"] if len(differences) > limit else []
    return "\n".join([*(str(difference) for difference in differences[:limit]), *rest])


def same(expected: Any, actual: Any) -> bool:
    """Tell whether two values are the same in type, value, scale, sign of zero and zone."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(same(expected[name], actual[name]) for name in expected)
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    if isinstance(expected, bytes) and isinstance(actual, bytes | bytearray):
        return expected == bytes(actual)
    if isinstance(expected, datetime) and isinstance(actual, datetime):
        return expected == actual and (expected.tzinfo is None) == (actual.tzinfo is None)
    # Equality alone would take 1 for True, 1.0 for 1.00 and 0.0 for -0.0.
    return type(expected) is type(actual) and repr(expected) == repr(actual)


def _table_differences(table: str, expected: Rows, actual: Rows, ignoring: str) -> list[Difference]:
    differences: list[Difference] = []
    for key in sorted({*expected, *actual}, key=lambda key: (key not in expected, repr(key))):
        if key not in actual:
            differences.append(Difference(table, key, WHOLE_ROW, dict(expected[key]), MISSING))
        elif key not in expected:
            differences.append(Difference(table, key, WHOLE_ROW, MISSING, dict(actual[key])))
        else:
            differences.extend(
                Difference(table, key, column, left, right)
                for column, left, right in _unlike("", expected[key], actual[key])
                if not column.startswith(ignoring)
            )
    return differences


def _unlike(path: str, expected: Any, actual: Any) -> list[tuple[str, Any, Any]]:
    if same(expected, actual):
        return []
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return [
            one
            for name in [*expected, *(name for name in actual if name not in expected)]
            for one in _unlike(
                f"{path}.{name}" if path else name, expected.get(name, MISSING), actual.get(name, MISSING)
            )
        ]
    if isinstance(expected, list) and isinstance(actual, list | tuple) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [one for number, (left, right) in pairs for one in _unlike(f"{path}[{number}]", left, right)]
    return [(path, expected, actual)]
