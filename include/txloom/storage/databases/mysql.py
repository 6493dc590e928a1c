"""A MySQL or MariaDB database at one moment: digests of key ranges, and rows by their keys, in one transaction.

The transaction is a consistent snapshot of InnoDB, and reads only. MariaDB (and Percona's server) say at which position
of the binlog it lies. MySQL does not: there the GTIDs that had been executed before it are surely in it, or, without
GTIDs, what was in the binlog a while before; a commit is in the binlog before others see what it did.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pymysql

from txloom.config.models.column_types import ColumnType
from txloom.config.models.pipeline import Table
from txloom.current.equality import canonical_texts, mysql_texts
from txloom.current.equality.mysql_texts import Held
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.events.debezium.positions import binlog_position
from txloom.storage.databases import binlog
from txloom.storage.databases.audit_source import Handle, Key, Limits, Texts
from txloom.storage.databases.connection import AT_ONCE, Connection
from txloom.storage.databases.mysql_moment import Moment
from txloom.storage.databases.mysql_relation import Relation, quoted

LOG = logging.getLogger(__name__)

SETTLING = 2.0
"""Seconds within which a commit that is in the binlog becomes visible, where GTIDs do not say whether it is."""
BY_VALUE = ("long", "int", "decimal", "double", "float", "boolean", "date", "timestamp", "timestamptz")
"""Types whose values both sides order alike; all others are ordered by the bytes of their texts."""
COLUMNS = """
    select c.table_schema, c.table_name, c.column_name, c.data_type, c.column_type, c.is_nullable, t.engine
    from information_schema.columns c join information_schema.tables t
    on t.table_schema = c.table_schema and t.table_name = c.table_name and t.table_type = 'BASE TABLE'
    where lower(c.table_name) = lower(%s) and (%s = '' or lower(c.table_schema) = lower(%s))
    and c.table_schema not in ('mysql', 'information_schema', 'performance_schema', 'sys')
"""
NO_POSITION = "does not say its position in the binlog: switch log_bin on, and grant {} to the user"
GEOMETRIC = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
)


class _Column(NamedTuple):
    name: str
    held: Held


class Mysql(Connection):
    """One read-only connection to a database."""

    errors = pymysql.MySQLError
    formats_always = True

    def __init__(self, connect: Callable[[], Any], limits: Limits) -> None:
        """Open a connection, and say what it may take; nothing else is asked yet."""
        super().__init__(connect, limits)
        (version,) = self._one("select version()")
        self.is_mariadb = "mariadb" in version.lower()
        self._may_read_binlog = True
        self._clear = (0, 0)
        """Between these positions the binlog has no change of the tables that were asked for."""
        seconds = limits.statement
        timeout = (
            f"max_statement_time = {seconds}" if self.is_mariadb else f"max_execution_time = {int(seconds * 1000)}"
        )
        self._ask(
            f"set session {timeout}, lock_wait_timeout = {max(1, int(seconds))}, wait_timeout = 86400,"
            " time_zone = '+00:00', sql_mode = ''"
        )
        self._ask("set session transaction isolation level repeatable read")

    @staticmethod
    def reason(error: Exception) -> str:
        """Return the first line of what the server says of an error, without its number."""
        return str(error.args[-1] if error.args else error).strip().splitlines()[0]

    def begin(self) -> Moment:
        """Begin a new snapshot, and end the one before.

        Raises ConfigurationError where the server does not say where in its binlog the snapshot lies.
        """
        self._connection.rollback()
        exact = self._ask("show status like 'binlog_snapshot_%%'")
        before = None if exact else self._position()
        executed = None if exact else self._executed()
        if not exact and executed is None:
            time.sleep(SETTLING)
        self._ask("start transaction with consistent snapshot, read only")
        (at,) = self._one("select utc_timestamp(6)")
        if before is None:
            status = dict(self._ask("show status like 'binlog_snapshot_%%'"))
            file, within = (status.get(f"Binlog_snapshot_{name}", "") for name in ("file", "position"))
            here = binlog_position(file, within)
            if here is None:
                raise ConfigurationError("the database has no binlog: switch log_bin on")
            return Moment(here - 1, here - 1, at)
        return Moment(before - 1, self._position() - 1, at, executed)

    def mark(self) -> None:
        """Do nothing: the binlog says by itself whether anything lies between the lake and a snapshot."""

    def shows(self, moment: Moment, csn: int, tables: Sequence[Table]) -> bool:
        """Return whether a lake that shows tables up to a csn shows all that the snapshot may have of them.

        Where it shows less than the snapshot's position, the binlog says whether anything lies between. A user who may
        not read the binlog waits for the next transaction of the tables.
        """
        if csn >= moment.at_most or not self._may_read_binlog:
            return csn >= moment.at_most
        names = {".".join(table.source.lower().split(".")[-2:]) for table in tables}
        low = self._clear[1] if self._clear[0] <= csn < self._clear[1] else csn
        try:
            changed = binlog.has_changes(self._ask, low, moment.at_most + 1, names)
        except SourceUnavailable as error:
            LOG.info(f"[audit] the binlog cannot be read, so that a quiet source is waited for: {error}")
            self._may_read_binlog = False
            return False
        if not changed:
            self._clear = (csn, moment.at_most + 1)
        return not changed

    def _position(self) -> int:
        """Return the position behind the last transaction in the binlog."""
        for statement in ("show binary log status", "show master status"):
            try:
                rows = self._ask(statement)
            except SourceUnavailable:
                continue
            if rows and (position := binlog_position(rows[0][0], rows[0][1])) is not None:
                return position
        raise ConfigurationError(f"the database {NO_POSITION.format('REPLICATION CLIENT')}")

    def _executed(self) -> str | None:
        """Return the GTIDs of transactions that are visible; None where the server has no GTIDs.

        Raises ConfigurationError where a commit may wait for a replica, with nothing that says whether it is visible.
        """
        settings = dict(self._ask("show global variables where variable_name in ('gtid_mode', 'gtid_executed')"))
        if settings.get("gtid_mode", "OFF").upper() == "ON":
            return str(settings["gtid_executed"])
        waits = self._ask("show global variables like 'rpl_semi_sync_%%_enabled'")
        if any(value == "ON" and not name.endswith(("slave_enabled", "replica_enabled")) for name, value in waits):
            raise ConfigurationError(
                "commits wait for a replica (semi-synchronous replication), and without GTIDs nothing says which of "
                "them a snapshot has: set gtid_mode=ON"
            )
        return None

    def relation(self, table: Table) -> Relation:
        """Return the table of the database that a declared one is.

        Raises ConfigurationError where there is none, more than one, a column is missing or has a type that cannot be
        compared, or its engine has no snapshots.
        """
        name, columns = self._columns(table)
        if missing := [column.source for column in table.columns if column.source.lower() not in columns]:
            raise ConfigurationError(f"{table.name}: {table.source} has no column {', '.join(missing)} in the database")
        ordered = [*(table.column(each) for each in table.key), *(c for c in table.columns if c.name not in table.key)]
        known = {column.name: columns[column.source.lower()] for column in ordered}
        for column in ordered:
            _refuse_unfit(table, column.name, column.type, known[column.name].held)
        names = {name: quoted(column.name) for name, column in known.items()}
        texts = {c.name: mysql_texts.canonical(names[c.name], known[c.name].held, c.type) for c in ordered}
        by_value = {each: table.column(each).type.kind in BY_VALUE for each in table.key}
        return Relation(
            name=name,
            key=tuple(names[each] for each in table.key),
            order=tuple(names[each] if by_value[each] else f"cast({texts[each]} as binary)" for each in table.key),
            texts=tuple(texts.values()),
            padded=frozenset(name for name, column in known.items() if column.held.base == "json"),
            columns=tuple(texts),
        )

    def _columns(self, table: Table) -> tuple[str, dict[str, _Column]]:
        """Return the quoted name of the one table that a declaration can mean, and its columns by lower-case name."""
        schema, _, name = table.source.rpartition(".")
        schema = schema.rpartition(".")[2]
        rows = self._ask(COLUMNS, (name, schema, schema))
        relations = {(row[0], row[1], row[6]) for row in rows}
        if len(relations) != 1:
            known = ", ".join(f"{each[0]}.{each[1]}" for each in sorted(relations)) or "none"
            raise ConfigurationError(f"{table.name}: expected one table {table.source} in the database, found {known}")
        ((schema, name, engine),) = relations
        if engine.lower() != "innodb":
            raise ConfigurationError(f"{table.name}: {schema}.{name} is of engine {engine}, which has no snapshots")
        columns = {row[2].lower(): _Column(row[2], _held(row[3], row[4], row[5])) for row in rows}
        return f"{quoted(schema)}.{quoted(name)}", columns

    def total(self, relation: Relation, low: Handle, high: Handle) -> tuple[int, int]:
        """Return how many rows a key range has and the sum of their digests; an empty bound is none."""
        if relation.padded:
            rows = self._digested(relation, low, high)
            return len(rows), sum(digest for _, _, digest in rows)
        condition, values = relation.within(low, high)
        begun = time.monotonic()
        sql = f"select count(*), coalesce(sum(digest), 0) from ({relation.digests(condition)}) d"
        count, total = self._one(sql, values)
        self._wait(int(count), begun)
        return int(count), int(total)

    def listed(self, relation: Relation, low: Handle, high: Handle) -> dict[Key, tuple[Handle, int]]:
        """Return the key and the digest of each row of a key range by its canonical key."""
        return {key: (handle, digest) for key, handle, digest in self._digested(relation, low, high)}

    def _digested(self, relation: Relation, low: Handle, high: Handle) -> list[tuple[Key, Handle, int]]:
        """Return canonical key, key and digest of rows; where JSON has to be parsed, this process makes the digests."""
        condition, values = relation.within(low, high)
        begun, width = time.monotonic(), len(relation.key)
        if relation.padded:
            read = self._ask(relation.rows(condition), values)
            texts = _parsed(relation, read)
            columns = [pa.array(column, pa.string()) for column in zip(*texts, strict=True)]
            digests = canonical_texts.digests(canonical_texts.row_texts(columns)).tolist() if texts else []
            pairs = zip(texts, read, digests, strict=True)
            rows = [(text[:width], row[-width:], digest) for text, row, digest in pairs]
        else:
            read = self._ask(relation.digests(condition), values)
            rows = [(row[:width], row[width:-1], int(row[-1] or 0)) for row in read]
        self._wait(len(rows), begun)
        return rows

    def rows_of(self, relation: Relation, keys: Sequence[Handle]) -> dict[Key, Texts]:
        """Return the canonical texts of rows by their canonical keys; a row that is not there is left out."""
        width, there = len(relation.key), dict[Key, Texts]()
        for start in range(0, len(keys), AT_ONCE):
            condition, values = relation.among(keys[start : start + AT_ONCE])
            begun = time.monotonic()
            rows = _parsed(relation, self._ask(relation.rows(condition), values))
            self._wait(len(rows), begun)
            there |= {row[:width]: row for row in rows}
        return there

    def position(self) -> int:
        """Return the position in the binlog that the server has reached."""
        self._connection.rollback()
        status = dict(self._ask("show status like 'binlog_snapshot_%%'"))
        file, within = (status.get(f"Binlog_snapshot_{name}", "") for name in ("file", "position"))
        here = binlog_position(file, within)
        return (self._position() if here is None else here) - 1

    def rows_now(self, relation: Relation, keys: Sequence[Handle]) -> dict[Key, Texts]:
        """Return the canonical texts of rows as the last commits left them; no lock is held afterwards.

        A snapshot begins with the first row that is read, when the table is locked already against TRUNCATE and ALTER.
        """
        there = dict[Key, Texts]()
        for start in range(0, len(keys), AT_ONCE):
            self._connection.rollback()
            there |= self.rows_of(relation, keys[start : start + AT_ONCE])
        self._connection.rollback()
        return there


def _parsed(relation: Relation, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the canonical texts of rows, without the keys behind them; JSON is written anew."""
    width = len(relation.columns)
    texts = [row[:width] for row in rows]
    for number in (number for number, name in enumerate(relation.columns) if name in relation.padded):
        texts = [
            (*row[:number], canonical_texts.json_text(row[number]), *row[number + 1 :]) if row[number] else row
            for row in texts
        ]
    return texts


def _held(base: str, kind: str, is_nullable: str) -> Held:
    bits = kind.lower().removeprefix("bit(").removesuffix(")") if base.lower() == "bit" else "0"
    return Held(base.lower(), is_nullable == "YES", int(bits))


def _refuse_unfit(table: Table, name: str, declared: ColumnType, held: Held) -> None:
    """Raise ConfigurationError for a column whose values the lake cannot have exactly."""
    known = {
        "json": (("json",), "JSON, which has no text of its own: declare json"),
        "float": (("float",), "FLOAT, and its digits are those of a float: declare float"),
    }
    fitting, why = known.get(held.base, ((declared.kind,), ""))
    if declared.element is not None or declared.kind not in fitting:
        why = why or "no array"
        raise ConfigurationError(f"{table.name}.{name}: the column in the database is {why}")
    if held.base in GEOMETRIC:
        raise ConfigurationError(f"{table.name}.{name}: a {held.base} cannot be compared; leave the column out")


@contextmanager
def connected(fields: Mapping[str, Any], limits: Limits) -> Iterator[Mysql]:
    """Connect to the database that an Airflow connection names.

    Args:
        fields: of the connection: host, port, login, password, schema (the database), and in extra what PyMySQL takes
            for an encrypted connection: ssl_ca, ssl_cert, ssl_key, ssl_verify_cert, ssl_verify_identity.
        limits: what may be asked of it.

    Raises:
        SourceUnavailable: it does not answer.
    """
    named = {"host": "host", "port": "port", "login": "user", "password": "password", "schema": "database"}
    given = {name: fields.get(field) for field, name in named.items()}
    extra = {name: value for name, value in (fields.get("extra") or {}).items() if name.startswith("ssl_")}
    parameters = {**{name: value for name, value in given.items() if value}, **extra}
    if "port" in parameters:
        parameters["port"] = int(parameters["port"])
    try:
        source = Mysql(
            partial(pymysql.connect, **parameters, charset="utf8mb4", program_name="txloom audit", connect_timeout=30),
            limits,
        )
    except pymysql.MySQLError as error:
        raise SourceUnavailable(f"no connection to the database: {Mysql.reason(error)}") from error
    with closing(source):
        yield source
