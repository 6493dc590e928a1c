"""A PostgreSQL database at one moment: digests of key ranges, and rows by their keys, in one read-only transaction.

The transaction is REPEATABLE READ: all that it reads is one snapshot. Its place in the log is known from both sides:
what was committed up to `Moment.surely` is in it, but for the transactions in `running` and those from `next_xid` on,
and nothing above `Moment.at_most` is. A transaction writes its commit into the log before others see what it did.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import psycopg2

from txloom.config.models.pipeline import Table
from txloom.current.equality import postgresql_texts
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.storage.databases.audit_source import Handle, Key, Limits, Texts
from txloom.storage.databases.connection import AT_ONCE, Connection
from txloom.storage.delta.sql import sql_name

LOG = logging.getLogger(__name__)

OLDEST = 140_000
"""The oldest version whose times are exact numbers (`extract`), as `server_version_num` has it."""
_HERE = "case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end"
POSITION = f"{_HERE} - '0/0'::pg_lsn"
RUNNING = "select (x::text::numeric % 4294967296)::text from pg_snapshot_xip(pg_current_snapshot()) x"
"""Transactions by the 32 bits of their number that the log has."""
NEXT = "(pg_snapshot_xmax(pg_current_snapshot())::text::numeric % 4294967296)"
COLUMNS = """
    select n.nspname, c.relname, a.attname, t.typname, format_type(a.atttypid, a.atttypmod)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    join pg_type t on t.oid = a.atttypid
    where c.relkind in ('r', 'p') and lower(c.relname) = lower(%s) and (%s = '' or lower(n.nspname) = lower(%s))
"""
TEXTS = ("text", "varchar", "bpchar", "name", "citext")
"""Types whose order depends on a collation."""
XIDS = 1 << 32
WINDOW = 1 << 30
"""Bytes of the log within which a commit that is written becomes visible; ids of transactions count round later."""


@dataclass(frozen=True)
class Moment:
    """Where a snapshot lies in the source's log."""

    surely: int
    at_most: int
    running: frozenset[str]
    """Transactions (xid) that had not ended: not in the snapshot, wherever their commit lies."""
    next_xid: int
    """From which xid on none is in the snapshot, by 32 bits that count round."""
    at: datetime

    @property
    def unseen(self) -> str:
        """The SQL condition of changes by transactions that the snapshot may not have."""
        late = f"_txloom_csn > {self.surely}"
        ahead = f"(try_cast(_txloom_xid as bigint) - {self.next_xid} + {XIDS}) % {XIDS} < {XIDS // 2}"
        running = ", ".join(f"'{int(xid)}'" for xid in sorted(self.running))
        invisible = f"{ahead} or _txloom_xid in ({running})" if running else ahead
        return f"{late} or (_txloom_csn > {self.surely - WINDOW} and ({invisible}))"


@dataclass(frozen=True)
class Relation:
    """A table of the database, with the lake's columns.

    Args:
        name: quoted, with its schema.
        key: quoted names of the key's columns.
        order: the same with the collation that orders them as the lake does.
        key_types: their types.
        texts: the SQL of each declared column's canonical text, the key's columns first.
        widths: by declared name, up to how many characters a column's texts are padded with blanks.
    """

    name: str
    key: tuple[str, ...]
    order: tuple[str, ...]
    key_types: tuple[str, ...]
    texts: tuple[str, ...]
    widths: Mapping[str, int]

    @property
    def padded(self) -> frozenset[str]:
        """The declared columns whose texts are padded with blanks."""
        return frozenset(self.widths)

    @property
    def values(self) -> str:
        """The place of a key's values in SQL."""
        return f"({', '.join(f'cast(%s as {kind})' for kind in self.key_types)})"

    def within(self, low: Handle, high: Handle) -> str:
        """Return the condition of a key range; an empty bound is none."""
        row = f"({', '.join(self.order)})"
        conditions = [f"{row} {sign} {self.values}" for sign, bound in ((">=", low), ("<", high)) if bound]
        return " and ".join(conditions) or "true"

    def among(self, keys: int) -> str:
        """Return the condition of rows that have one of so many keys."""
        return f"({', '.join(self.key)}) in ({', '.join([self.values] * keys)})"

    def digests(self, condition: str) -> str:
        """Return the query of canonical key, key, and digest of each row for which a condition holds."""
        columns = [f"c{number}" for number in range(len(self.texts))]
        inner = ", ".join(f"{text} as {column}" for text, column in zip(self.texts, columns, strict=True))
        handles = ", ".join(f"{name}::text as h{number}" for number, name in enumerate(self.key))
        read = ", ".join([*columns[: len(self.key)], *(f"h{number}" for number in range(len(self.key)))])
        digest = postgresql_texts.row_digest(columns)
        return (
            f"select {read}, {digest} as digest from (select {inner}, {handles} from {self.name} where {condition}) r"
        )


class _Column(NamedTuple):
    """A column of the database; base: the name of its type without length and digits."""

    name: str
    base: str
    kind: str


def _width(kind: str) -> int:
    """Return the length of a type that pads texts with blanks; 0: it has none.

    >>> _width("character(10)"), _width("bpchar")
    (10, 0)
    """
    length = re.search(r"\((\d+)\)", kind)
    return int(length[1]) if length else 0


class Postgresql(Connection):
    """One read-only connection to a database; `mark` opens another."""

    errors = psycopg2.Error
    formats_always = False

    def __init__(self, connect: Callable[[], Any], limits: Limits) -> None:
        """Open a connection; nothing is asked yet."""
        super().__init__(connect, limits)
        self._connect = connect

    def begin(self) -> Moment:
        """Begin a new snapshot, and end the one before."""
        self._connection.rollback()
        self._connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        (surely,) = self._one(f"select {POSITION}")
        self._connection.rollback()
        self._ask(f"set local statement_timeout = {int(self._limits.statement * 1000)}")
        at, in_progress, next_xid = self._one(f"select clock_timestamp(), array({RUNNING}), {NEXT}")
        (at_most,) = self._one(f"select {POSITION}")
        return Moment(int(surely), int(at_most), frozenset(in_progress), int(next_xid), at)

    def mark(self) -> None:
        """Let an empty transaction pass through the source's log, behind the snapshot, so that the lake can reach it.

        It is a message of logical decoding and changes nothing. Where it is not allowed, as on a standby, the lake
        waits for what the source commits by itself.
        """
        try:
            with closing(self._connect()) as other, other, other.cursor() as cursor:
                cursor.execute("set local synchronous_commit to off")
                cursor.execute("select pg_logical_emit_message(true, 'txloom', 'audit')")
        except psycopg2.Error as error:
            LOG.info(f"[audit] no mark in the log: {self.reason(error)}")

    def shows(self, moment: Moment, csn: int, tables: Sequence[Table]) -> bool:  # noqa: ARG002 (one log for all)
        """Return whether a lake that shows tables up to a csn shows all that the snapshot may have of them."""
        return csn >= moment.at_most

    def refuse_unfit(self) -> None:
        """Raise ConfigurationError for a database that is older than 14, or does not speak UTF-8."""
        version, encoding = self._connection.server_version, self._connection.get_parameter_status("server_encoding")
        if version < OLDEST or encoding != "UTF8":
            raise ConfigurationError(f"expected PostgreSQL 14 or newer in UTF8, found {version // 10000} in {encoding}")

    def relation(self, table: Table) -> Relation:
        """Return the table of the database that a declared one is.

        Raises ConfigurationError where there is none, more than one, or a column is missing.
        """
        (schema, name), columns = self._columns(table)
        if missing := [column.source for column in table.columns if column.source.lower() not in columns]:
            raise ConfigurationError(f"{table.name}: {table.source} has no column {', '.join(missing)} in the database")
        ordered = [*(table.column(name) for name in table.key), *(c for c in table.columns if c.name not in table.key)]
        known = {column.name: columns[column.source.lower()] for column in ordered}
        quoted = {name: sql_name(column.name) for name, column in known.items()}
        return Relation(
            name=f"{sql_name(schema)}.{sql_name(name)}",
            key=tuple(quoted[name] for name in table.key),
            order=tuple(quoted[name] + ' collate "C"' * (known[name].base in TEXTS) for name in table.key),
            key_types=tuple(known[name].kind for name in table.key),
            texts=tuple(postgresql_texts.canonical(quoted[column.name], column.type) for column in ordered),
            widths={name: _width(column.kind) for name, column in known.items() if column.base == "bpchar"},
        )

    def _columns(self, table: Table) -> tuple[tuple[str, str], dict[str, "_Column"]]:
        """Return schema and name of the one table that a declaration can mean, and its columns by lower-case name."""
        schema, _, name = table.source.rpartition(".")
        schema = schema.rpartition(".")[2]
        rows = self._ask(COLUMNS, (name, schema, schema))
        relations = {(row[0], row[1]) for row in rows}
        if len(relations) != 1:
            known = ", ".join(f"{each[0]}.{each[1]}" for each in sorted(relations)) or "none"
            raise ConfigurationError(f"{table.name}: expected one table {table.source} in the database, found {known}")
        return relations.pop(), {row[2].lower(): _Column(*row[2:]) for row in rows}

    def total(self, relation: Relation, low: Handle, high: Handle) -> tuple[int, int]:
        """Return how many rows a key range has and the sum of their digests; an empty bound is none."""
        sql = f"select count(*), coalesce(sum(digest), 0) from ({relation.digests(relation.within(low, high))}) d"
        begun = time.monotonic()
        count, total = self._one(sql, [*low, *high])
        self._wait(int(count), begun)
        return int(count), int(total)

    def listed(self, relation: Relation, low: Handle, high: Handle) -> dict[Key, tuple[Handle, int]]:
        """Return the key and the digest of each row of a key range by its canonical key."""
        begun, width = time.monotonic(), len(relation.key)
        rows = self._ask(relation.digests(relation.within(low, high)), [*low, *high])
        self._wait(len(rows), begun)
        return {row[:width]: (row[width:-1], int(row[-1])) for row in rows}

    def rows_of(self, relation: Relation, keys: Sequence[Handle]) -> dict[Key, Texts]:
        """Return the canonical texts of rows by their canonical keys; a row that is not there is left out."""
        read, width = ", ".join(relation.texts), len(relation.key)
        there = dict[Key, Texts]()
        for start in range(0, len(keys), AT_ONCE):
            some, begun = keys[start : start + AT_ONCE], time.monotonic()
            sql = f"select {read} from {relation.name} where {relation.among(len(some))}"
            rows = self._ask(sql, [value for key in some for value in key])
            self._wait(len(rows), begun)
            there |= {row[:width]: row for row in rows}
        return there

    def position(self) -> int:
        """Return the position in the log that the server has reached."""
        self._connection.rollback()
        (position,) = self._one(f"select {POSITION}")
        self._connection.rollback()
        return int(position)

    def rows_now(self, relation: Relation, keys: Sequence[Handle]) -> dict[Key, Texts]:
        """Return the canonical texts of rows as the last commits left them; no lock is held afterwards.

        The table is locked against TRUNCATE and ALTER TABLE before a statement takes its snapshot (READ COMMITTED): a
        snapshot that is older than such a statement would show an empty table. A policy that hides rows from the user
        is an error (`row_security`).
        """
        there = dict[Key, Texts]()
        for start in range(0, len(keys), AT_ONCE):
            self._connection.rollback()
            self._connection.set_session(isolation_level="READ COMMITTED", readonly=True)
            self._ask(f"set local statement_timeout = {int(self._limits.statement * 1000)}")
            self._ask("set local row_security = off")
            self._ask(f"lock table {relation.name} in access share mode")
            there |= self.rows_of(relation, keys[start : start + AT_ONCE])
        self._connection.rollback()
        return there


@contextmanager
def connected(fields: Mapping[str, Any], limits: Limits) -> Iterator[Postgresql]:
    """Connect to the database that an Airflow connection names.

    Args:
        fields: of the connection: host, port, login, password, schema (the database), extra (libpq's parameters).
        limits: what may be asked of it.

    Raises:
        SourceUnavailable: it does not answer.
        ConfigurationError: it is older than 14, or does not speak UTF-8.
    """
    named = {"host": "host", "port": "port", "login": "user", "password": "password", "schema": "dbname"}
    given = {name: fields.get(field) for field, name in named.items()}
    extra = {name: value for name, value in (fields.get("extra") or {}).items() if isinstance(value, str | int)}
    parameters = {
        **{name: value for name, value in given.items() if value},
        **extra,
        "application_name": "txloom audit",
    }
    try:
        source = Postgresql(partial(psycopg2.connect, **parameters), limits)
    except psycopg2.Error as error:
        raise SourceUnavailable(f"no connection to the database: {Postgresql.reason(error)}") from error
    with closing(source):
        source.refuse_unfit()
        yield source
