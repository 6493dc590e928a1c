"""What must hold of the rows that an expectation judges: each condition once, for SQL and for Great Expectations.

`failing` is SQL that selects the rows which do not fulfil it, out of those that another query selects; `arguments` is
the same condition for the class of Great Expectations that judges those rows (`txloom.quality.rules`). A null fails
nothing.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AtMost:
    """No value of a column is above a limit."""

    column: str
    most: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are judged."""
        return (self.column,)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a class of Great Expectations that takes a highest value."""
        return {"column": self.column, "max_value": self.most}

    def failing(self, rows: str) -> str:
        """Return SQL for the rows that fail.

        >>> AtMost("age_seconds", 600).failing("select * from t")
        'select * from (select * from t) where "age_seconds" > 600'
        """
        return f'select * from ({rows}) where "{self.column}" > {self.most}'


@dataclass(frozen=True)
class InSet:
    """Every value of a column is one of `values`; with `outside`, none of them is."""

    column: str
    values: tuple[str | bool, ...]
    outside: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are judged."""
        return (self.column,)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a class of Great Expectations that takes a set of values."""
        return {"column": self.column, "value_set": list(self.values)}

    def failing(self, rows: str) -> str:
        """Return SQL for the rows that fail.

        >>> InSet("code", ("a", "b"), outside=True).failing("select * from t")
        'select * from (select * from t) where "code" in (\\'a\\', \\'b\\')'
        """
        among = "in" if self.outside else "not in"
        return f'select * from ({rows}) where "{self.column}" {among} ({", ".join(map(_literal, self.values))})'


def _literal(given: str | bool) -> str:  # noqa: FBT001 (a value of a column)
    """Write a truth value, or a text by the rule of `txloom.storage.delta.sql`: this room knows no storage."""
    return str(given).lower() if isinstance(given, bool) else "'" + given.replace("'", "''") + "'"


@dataclass(frozen=True)
class NotBelow:
    """No value of a column is below the value of another column in the same row."""

    column: str
    other: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that are judged."""
        return (self.column, self.other)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a class of Great Expectations that compares two columns."""
        return {"column_A": self.column, "column_B": self.other, "or_equal": True}

    def failing(self, rows: str) -> str:
        """Return SQL for the rows that fail."""
        return f'select * from ({rows}) where "{self.column}" < "{self.other}"'


@dataclass(frozen=True)
class Few:
    """There are at most `most` rows; where there are more, all of them fail."""

    most: int
    columns: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a class of Great Expectations that counts rows."""
        return {"max_value": self.most}

    def fails(self, rows: int) -> bool:
        """Return whether a number of rows is above the limit."""
        return rows > self.most


@dataclass(frozen=True)
class NoRows:
    """A query over several tables returns no row; each row that it returns fails."""

    query: str
    columns: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a class of Great Expectations that runs a query."""
        return {"unexpected_rows_query": self.query}


OfRows = AtMost | InSet | NotBelow
"""Conditions that are judged row by row."""
Condition = OfRows | Few | NoRows
