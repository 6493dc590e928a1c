"""Which row or document is asked for: a table by any of its names, and a key given as text."""

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
from txloom.storage.targets.row_tables import Flat, flats
from txloom.storage.views.paging import Row


@dataclass(frozen=True)
class Member:
    """A table whose changes belong to a story; by: its columns that hold the key, in the key's order."""

    flat: Flat
    by: tuple[str, ...]

    @property
    def table(self) -> Table:
        """Return the declared table."""
        return self.flat.table

    @property
    def is_own(self) -> bool:
        """Tell whether the key is the table's own."""
        return self.by == self.table.key


@dataclass(frozen=True)
class Asked:
    """What is asked for: a current table, its key, and the tables whose changes make its rows, the root first."""

    current: str
    root: Table
    members: tuple[Member, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Return the columns of the key."""
        return self.root.key


def asked(pipeline: Pipeline, table: str) -> Asked:
    """Return what a name stands for: a watched table, a mirror, or an aggregate's documents."""
    every = {flat.table.name: flat for flat in flats(pipeline)}
    named = every | {flat.current: flat for flat in every.values()}
    for aggregate in pipeline.targets.aggregates:
        if aggregate.current == table:
            root = every[aggregate.root]
            children = [Member(every[child.table], child.parent_key) for child in aggregate.children]
            return Asked(table, root.table, (Member(root, root.table.key), *children))
    if table not in named:
        known = sorted({*every, *(each.current for each in pipeline.targets.aggregates)})
        hint = did_you_mean(table, known) or f"It has {', '.join(known)}."
        raise ConfigurationError(f"pipeline {pipeline.name} has no table {table!r}. {hint}")
    flat = named[table]
    if flat.table.insert_only:
        raise ConfigurationError(f"{table} has no key: its rows are inserted once and never change")
    return Asked(flat.current, flat.table, (Member(flat, flat.table.key),))


def read_key(asked: Asked, key: Mapping[str, str]) -> Row:
    """Return a key as its types have it."""
    if set(key) != set(asked.key):
        wanted = ", ".join(f"{name}=..." for name in asked.key)
        raise ConfigurationError(f"{asked.current} has the key {wanted}; found {', '.join(sorted(key)) or 'nothing'}")
    found = {}
    for name in asked.key:
        kind = asked.root.column(name).type
        try:
            found[name] = reader(kind)(key[name])
        except (ValueError, TypeError, DecimalException):
            raise ConfigurationError(f"{asked.current}.{name} is {kind}; found {key[name]!r}") from None
    return found


def equal(columns: Sequence[str], values: Sequence[Any], kinds: Sequence[pa.DataType]) -> str:
    """Return the condition that columns, written as SQL and of some types, have values."""
    told = zip(columns, values, kinds, strict=True)
    return " and ".join(among(column, [value], kind) for column, value, kind in told)


def kinds(table: Table, columns: Sequence[str]) -> list[pa.DataType]:
    """Return the types of declared columns."""
    return [arrow_type(table.column(name).type) for name in columns]
