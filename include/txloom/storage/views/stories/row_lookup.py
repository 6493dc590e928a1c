"""Resolve a request for a row or document: a table by any of its names, and a key given as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import DecimalException
from typing import Any

import pyarrow as pa

from txloom.config.models.pipeline import Pipeline, Table
from txloom.config.problems import did_you_mean
from txloom.errors import ConfigurationError
from txloom.events.values.scalars import arrow_type, reader
from txloom.storage.delta.sql import among
from txloom.storage.targets.row_tables import RowTable, row_tables
from txloom.storage.views.paging import Row


@dataclass(frozen=True)
class Member:
    """A table whose changes belong to a story; by: its columns that hold the key, in the key's order."""

    row_table: RowTable
    by: tuple[str, ...]

    @property
    def table(self) -> Table:
        """Return the declared table."""
        return self.row_table.table

    @property
    def is_root(self) -> bool:
        """Return whether the key is the key of this table."""
        return self.by == self.table.key


@dataclass(frozen=True)
class RowQuestion:
    """A request for a row: a current table, its key, and the tables whose changes make its rows, the root first."""

    current: str
    root: Table
    members: tuple[Member, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Return the columns of the key."""
        return self.root.key


def row_question(pipeline: Pipeline, table: str) -> RowQuestion:
    """Return what a name stands for: a watched table, a mirror, or an aggregate's documents.

    Raises ConfigurationError for an unknown table, and for one without a key.
    """
    every = {row_table.table.name: row_table for row_table in row_tables(pipeline)}
    named = every | {row_table.current: row_table for row_table in every.values()}
    for aggregate in pipeline.targets.aggregates:
        if aggregate.current == table:
            root = every[aggregate.root]
            children = [Member(every[child.table], child.parent_key) for child in aggregate.children]
            return RowQuestion(table, root.table, (Member(root, root.table.key), *children))
    if table not in named:
        known = sorted({*every, *(each.current for each in pipeline.targets.aggregates)})
        hint = did_you_mean(table, known) or f"It has {', '.join(known)}."
        raise ConfigurationError(f"pipeline {pipeline.name} has no table {table!r}. {hint}")
    row_table = named[table]
    if row_table.table.insert_only:
        raise ConfigurationError(f"{table} has no key: its rows are inserted once and never change")
    return RowQuestion(row_table.current, row_table.table, (Member(row_table, row_table.table.key),))


def read_key(question: RowQuestion, key: Mapping[str, str]) -> Row:
    """Return a key with the values of its types.

    Raises ConfigurationError for other columns than the key's, and for texts that a type does not take.
    """
    if set(key) != set(question.key):
        expected = ", ".join(f"{name}=..." for name in question.key)
        raise ConfigurationError(
            f"{question.current} has the key {expected}; found {', '.join(sorted(key)) or 'nothing'}"
        )
    values_read = {}
    for name in question.key:
        kind = question.root.column(name).type
        try:
            values_read[name] = reader(kind)(key[name])
        except (ValueError, TypeError, DecimalException):
            raise ConfigurationError(f"{question.current}.{name} is {kind}; found {key[name]!r}") from None
    return values_read


def equal(columns: Sequence[str], values: Sequence[Any], kinds: Sequence[pa.DataType]) -> str:
    """Return the SQL condition that columns, given as SQL with their types, have some values."""
    triples = zip(columns, values, kinds, strict=True)
    return " and ".join(among(column, [value], kind) for column, value, kind in triples)


def kinds(table: Table, columns: Sequence[str]) -> list[pa.DataType]:
    """Return the types of declared columns."""
    return [arrow_type(table.column(name).type) for name in columns]
