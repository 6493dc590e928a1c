"""Work on several tables in parallel, in threads of this process."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from txloom.errors import TablesFailed, TxloomError

T = TypeVar("T")
WRITERS = 4
"""Calls made at once. A small read or commit waits for its files more than for the two cores."""


def run_parallel(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Make calls in parallel and return their results in the order of the calls.

    Raises the error of the first call in this order that failed, after all calls have ended.
    """
    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(lambda call: call(), calls))


@dataclass
class Failures:
    """The errors of tables that failed, by table, while the other tables went on."""

    errors: dict[str, Exception] = field(default_factory=dict)

    def attempt(self, calls: Mapping[str, Callable[[], T]]) -> dict[str, T]:
        """Make one call for each table in parallel; return the results, by table, of the calls that did not fail.

        The error of a call that failed is kept under its table; a later error of the same table does not replace it.
        """
        results: dict[str, T] = {}

        def run(table: str, call: Callable[[], T]) -> None:
            try:
                results[table] = call()
            except Exception as error:  # noqa: BLE001 (any error of one table leaves the others alone)
                self.errors.setdefault(table, error)

        run_parallel([partial(run, table, call) for table, call in calls.items()])
        return {table: results[table] for table in calls if table in results}

    def __str__(self) -> str:
        """Return every failed table with the first line of its error."""
        return "; ".join(f"{table}: {_first_line(error)}" for table, error in sorted(self.errors.items()))

    def refuse(self, done: str = "merged") -> None:
        """Raise one error for all failed tables; do nothing without one.

        Args:
            done: what happened to the other tables, as the message says it.

        Raises:
            TablesFailed: if the errors are of several kinds, or of a kind that is no TxloomError. Where all are of one
                kind of TxloomError, this kind is raised, so that its exit code stays.
        """
        kinds = {type(error) for error in self.errors.values()}
        kind = kinds.pop() if len(kinds) == 1 else TablesFailed
        if self.errors:
            raise (kind if issubclass(kind, TxloomError) else TablesFailed)(f"the others are {done}, but not {self}")


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return lines[0][:500] if isinstance(error, TxloomError) else f"{type(error).__name__}: {lines[0][:500]}"
