"""One connection to a database that an audit reads: what it asked, what that took, and how much it may read."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, ClassVar

from txloom.errors import SourceUnavailable
from txloom.storage.databases.audit_source import Limits

AT_ONCE = 500
"""Keys of one query."""


class Connection:
    """One read-only connection to a database.

    Args:
        connect: opens a connection.
        limits: what it may ask of the database.
    """

    as_of: int | None = None
    """Each snapshot is of another moment."""
    errors: ClassVar[type[Exception]]
    """What the driver raises."""
    formats_always: ClassVar[bool]
    """Whether a statement without values is formatted too, so that a percent sign in it is doubled."""

    def __init__(self, connect: Callable[[], Any], limits: Limits) -> None:
        """Open a connection; nothing is asked yet."""
        self._connection, self._limits = connect(), limits
        self.rows, self.seconds = 0, 0.0
        """Rows that were read, and the seconds that the database took for all statements."""

    @staticmethod
    def reason(error: Exception) -> str:
        """Return the first line of what the driver says of an error."""
        return str(error).strip().splitlines()[0]

    def close(self) -> None:
        """End the snapshot and the connection."""
        self._connection.close()

    def _one(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        return self._ask(sql, values)[0]

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        begun = time.monotonic()
        try:
            with closing(self._connection.cursor()) as cursor:
                cursor.execute(sql, values if values or self.formats_always else None)
                return list(cursor.fetchall()) if cursor.description else []
        except self.errors as error:
            raise SourceUnavailable(f"the database did not answer: {self.reason(error)}") from error
        finally:
            self.seconds += time.monotonic() - begun

    def _wait(self, rows: int, begun: float) -> None:
        """Let the database rest, so that no more than the declared rows are read in a second."""
        self.rows += rows
        time.sleep(max(0.0, rows / self._limits.rows_per_second - (time.monotonic() - begun)))
