"""The connections to a database that an audit reads: what it asked, what that took, and how much it may read."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.storage.databases.audit_source import Limits, TableChanged, Texts

AT_ONCE = 500
"""Keys of one query."""
LOCK_HELD_S = 1.0
"""Seconds for which a table is locked while it is read; a range that takes longer holds it for as long as it takes."""


@dataclass
class _Guard:
    """What locks the table of a block and looks at it (`Connection._guarded`); since: when it was locked, if it is."""

    lock: Callable[[], None]
    check: Callable[[], None]
    since: float | None = None


class Connection:
    """A read-only connection to a database, and a second one beside its snapshot.

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
        self._connect = connect
        self._connection, self._limits = connect(), limits
        self._beside: Any = None
        self._guard: _Guard | None = None
        """Of the block that reads a table."""
        self.rows, self.seconds = 0, 0.0
        """Rows that were read, and the seconds that the database took for all statements."""

    @staticmethod
    def reason(error: Exception) -> str:
        """Return the first line of what the driver says of an error."""
        return str(error).strip().splitlines()[0]

    def close(self) -> None:
        """End the snapshot and the connections."""
        self._connection.close()
        if self._beside is not None:
            self._beside.close()

    def _one(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        return self._ask(sql, values)[0]

    def _ask_beside(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement outside of the snapshot, on a second connection."""
        if self._beside is None:
            try:
                self._beside = self._connect()
                self._prepare_beside()
            except self.errors as error:
                raise SourceUnavailable(f"no second connection to the database: {self.reason(error)}") from error
        return self._ask(sql, values, self._beside)

    def _prepare_beside(self) -> None:
        """Let each statement of the second connection see what is committed."""
        raise NotImplementedError

    @contextmanager
    def _guarded(self, table: str, lock: Callable[[], None], check: Callable[[], None]) -> Iterator[None]:
        """Lock a table for as long as a block reads it (`_read`); the snapshot stays when the block ends.

        The lock is taken for the first range, and given up once it was held for LOCK_HELD_S or `_let_go` is called.
        So no statement of the source waits for the whole block.

        Args:
            table: its declared name, for errors.
            lock: locks the table.
            check: raises TableChanged where the table is not the one of the snapshot.

        Raises:
            TableChanged: of `check`, or where an error of the database shows it.
            ConfigurationError: the user may not read the table.
        """
        self._ask("savepoint reading")
        self._guard = _Guard(lock, check)
        try:
            yield
            self._let_go()
        except SourceUnavailable as error:
            if error.__cause__ is not None and (reason := self._change(error.__cause__)):
                raise TableChanged(reason) from error
            if error.__cause__ is not None and self._is_forbidden(error.__cause__):
                raise ConfigurationError(f"{table}: {error}: let the user read the declared columns") from error
            raise
        finally:
            self._guard = None
            # A connection that broke says so itself.
            with suppress(SourceUnavailable):
                self._ask("rollback to savepoint reading")
                self._ask("release savepoint reading")

    def _read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement that reads rows of a table, which a block has locked then."""
        self._take()
        return self._ask(sql, values)

    def keyless(self, relation: Any) -> list[Texts]:
        """Return the canonical texts of the keys that are null in part, one for each row."""
        if not relation.nullable:
            return []
        begun, read = time.monotonic(), ", ".join(relation.texts[: len(relation.key)])
        condition = " or ".join(f"{name} is null" for name in relation.nullable)
        rows = self._read(f"select {read} from {relation.name} where {condition}")
        self._wait(len(rows), begun)
        return rows

    def _take(self) -> None:
        """Lock the table of a block, if it is not locked, and look whether it is the one of the snapshot."""
        if self._guard is not None and self._guard.since is None:
            self._guard.lock()
            self._guard.check()
            self._guard.since = time.monotonic()

    def _let_go(self) -> None:
        """Give the table of a block up, if it is locked; what was read of it is of the snapshot."""
        if self._guard is not None and self._guard.since is not None:
            self._guard.check()
            self._ask("rollback to savepoint reading")
            self._guard.since = None

    def _change(self, error: BaseException) -> str:
        """Return why a driver's error shows that a table is not the one of the snapshot; "": it does not."""
        raise NotImplementedError

    def _is_forbidden(self, error: BaseException) -> bool:
        """Return whether a driver's error says that the user may not read a table."""
        raise NotImplementedError

    def _ask(self, sql: str, values: Sequence[Any] = (), connection: Any = None) -> list[tuple[Any, ...]]:
        """Run a statement; connection: None: that of the snapshot."""
        begun = time.monotonic()
        try:
            with closing((connection or self._connection).cursor()) as cursor:
                cursor.execute(sql, values if values or self.formats_always else None)
                return list(cursor.fetchall()) if cursor.description else []
        except self.errors as error:
            raise SourceUnavailable(f"the database did not answer: {self.reason(error)}") from error
        finally:
            self.seconds += time.monotonic() - begun

    def _wait(self, rows: int, begun: float) -> None:
        """Let the database rest, so that no more than the declared rows are read in a second."""
        self.rows += rows
        rest = max(0.0, rows / self._limits.rows_per_second - (time.monotonic() - begun))
        since = None if self._guard is None else self._guard.since
        if since is not None and time.monotonic() + rest - since >= LOCK_HELD_S:
            self._let_go()
        time.sleep(rest)
