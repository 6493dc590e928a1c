"""The choice of tables by the names that a person gives."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from txloom.config.problems import nearest
from txloom.errors import ConfigurationError

T = TypeVar("T")


def chosen(tables: Sequence[T], source: Callable[[T], str], names: Sequence[str], holder: str) -> list[T]:
    """Return the tables with some names, with or without their schema and in any case; without names all.

    Args:
        tables: the tables.
        source: the name of a table, with its schema.
        names: those that were given.
        holder: what has the tables, for the error.

    Raises:
        ConfigurationError: a name that no table has.
    """
    by_name = [(source(table), table) for table in tables]
    some = list[T]()
    for name in names:
        fitting = [table for full, table in by_name if name.lower() in (full.lower(), short(full).lower())]
        if not fitting:
            near = nearest(name, [full for full, _ in by_name])
            hint = f" Did you mean {near!r}?" if near else ""
            raise ConfigurationError(f"--tables: found {name!r}, but {holder} has no such table.{hint}")
        some += [each for each in fitting if each not in some]
    return some if names else list(tables)


def short(name: str) -> str:
    """Return a table's name without its schema.

    >>> short("public.orders")
    'orders'
    """
    return name.rpartition(".")[2]
