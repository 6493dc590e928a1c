"""Partitions that a merge concerns, as a condition of its SQL, so that it reads the files of no other."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

MOST_NAMED = 1_000
"""Partitions up to which a merge names those that it concerns."""


@dataclass(frozen=True)
class Within:
    """The partitions that a merge concerns: no other holds a row of its keys, or gets one."""

    column: str
    values: frozenset[Any]

    def condition(self, column: str, literal: Callable[[Any], str]) -> str:
        """Return the condition that a column, as SQL names it, is one of these partitions.

        >>> Within("year", frozenset([2026, None])).condition("t.year", str)
        '(t.year in (2026) or t.year is null)'
        """
        literals = sorted(literal(value) for value in self.values if value is not None)
        parts = [f"{column} in ({', '.join(literals)})"] if literals else []
        parts += [f"{column} is null"] if None in self.values else []
        return f"({' or '.join(parts)})"


def within(column: str, values: Iterable[Any]) -> Within | None:
    """Return the partitions with some values; None where they are too many to name, or none."""
    distinct = frozenset(values)
    nameable = all(value is None or type(value) in (int, str, date) for value in distinct)
    return Within(column, distinct) if nameable and 0 < len(distinct) <= MOST_NAMED else None
