"""The partitions that a merge has to read, as a condition of its SQL, so that it reads no files of others."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

MOST_NAMED = 1_000
"""The most partitions that a merge names; with more of them it reads all."""


@dataclass(frozen=True)
class Within:
    """The partitions that hold rows of a merge's keys before it or after it."""

    column: str
    """The column by which the table is partitioned."""
    values: frozenset[Any]
    """The column's values in these partitions."""

    def condition(self, column: str, literal: Callable[[Any], str]) -> str:
        """Return the SQL condition that a column holds one of the partitions' values.

        column: as SQL names it. literal: writes a value as SQL.

        >>> Within("year", frozenset([2026, None])).condition("t.year", str)
        '(t.year in (2026) or t.year is null)'
        """
        literals = sorted(literal(value) for value in self.values if value is not None)
        parts = [f"{column} in ({', '.join(literals)})"] if literals else []
        parts += [f"{column} is null"] if None in self.values else []
        return f"({' or '.join(parts)})"


def within(column: str, values: Iterable[Any]) -> Within | None:
    """Return the partitions with some values; None where a merge cannot name them.

    That is where there are none, or more than MOST_NAMED, or a value is no integer, text, date or null.
    """
    distinct = frozenset(values)
    nameable = all(value is None or type(value) in (int, str, date) for value in distinct)
    return Within(column, distinct) if nameable and 0 < len(distinct) <= MOST_NAMED else None
