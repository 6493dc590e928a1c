"""Tables worked on beside each other."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from txloom.errors import TablesFailed, TxloomError

T = TypeVar("T")
WRITERS = 4
"""Calls made at once: a small read or commit waits for its own files more than for the two cores."""


def run_parallel(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Make calls beside each other and return their results in order; the first error is raised."""
    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(lambda call: call(), calls))


@dataclass
class Failures:
    """Tables that failed, each with its error, while the others went on."""

    errors: dict[str, Exception] = field(default_factory=dict)

    def attempt(self, calls: Mapping[str, Callable[[], T]]) -> dict[str, T]:
        """Make calls beside each other; return what those gave that did not fail. One table may fail once."""
        results: dict[str, T] = {}

        def run(table: str, call: Callable[[], T]) -> None:
            try:
                results[table] = call()
            except Exception as error:  # noqa: BLE001 (whatever a table dies of, the others go on)
                self.errors.setdefault(table, error)

        run_parallel([partial(run, table, call) for table, call in calls.items()])
        return {table: results[table] for table in calls if table in results}

    def __str__(self) -> str:
        """Name every table with the first line of its error."""
        return "; ".join(f"{table}: {_first_line(error)}" for table, error in sorted(self.errors.items()))

    def refuse(self, done: str = "merged") -> None:
        """Raise what failed; errors that are all of one kind of txloom's own keep it, and so its exit code.

        done: what became of the others.
        """
        kinds = {type(error) for error in self.errors.values()}
        kind = kinds.pop() if len(kinds) == 1 else TablesFailed
        if self.errors:
            raise (kind if issubclass(kind, TxloomError) else TablesFailed)(f"the others are {done}, but not {self}")


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return lines[0][:500] if isinstance(error, TxloomError) else f"{type(error).__name__}: {lines[0][:500]}"
