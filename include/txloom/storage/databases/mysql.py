"""A MySQL or MariaDB database at one moment: digests of key ranges, and rows by their keys, in one transaction.

The transaction is a consistent snapshot of InnoDB, and reads only. MariaDB (and Percona's server) say at which position
of the binlog it lies. MySQL does not: there the GTIDs that had been executed before it are surely in it, or, without
GTIDs, what was in the binlog a while before; a commit is in the binlog before others see what it did.

A snapshot does not hold back statements that have no versions of rows. TRUNCATE and an ALTER TABLE that copies end the
first read after them with an error; a partition that comes or goes, a rename, or a column that MariaDB adds in an
instant are read without one, as they are after it. So what the catalog says of a table must be the same before the
snapshot and when the table is locked (by its metadata) to be read. Only with the privilege PROCESS does the catalog say
all of it: without, tables are locked from before the snapshot on.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pymysql

from txloom.config.models.pipeline import Table
from txloom.current.equality import canonical_texts
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.events.debezium.positions import binlog_position
from txloom.storage.databases import binlog
from txloom.storage.databases.audit_source import LOCK_WAIT_S, Handle, Key, Limits, TableChanged, Texts, by_key
from txloom.storage.databases.connection import AT_ONCE, Connection
from txloom.storage.databases.mysql_moment import Moment
from txloom.storage.databases.mysql_relation import Column, Relation, Stored, held, quoted, relation_of
from txloom.storage.targets.lake_digests import summed

LOG = logging.getLogger(__name__)

SETTLING = 2.0
"""Seconds within which a commit that is in the binlog becomes visible, where GTIDs do not say whether it is."""
COLUMNS = """
    select c.table_schema, c.table_name, c.column_name, c.data_type, c.column_type, c.is_nullable, t.engine,
        c.ordinal_position, t.create_time
    from information_schema.columns c join information_schema.tables t
    on t.table_schema = c.table_schema and t.table_name = c.table_name and t.table_type = 'BASE TABLE'
    where lower(c.table_name) = lower(%s) and (%s = '' or lower(c.table_schema) = lower(%s))
    and c.table_schema not in ('mysql', 'information_schema', 'performance_schema', 'sys')
"""
OTHER_KINDS = """
    select table_schema, table_name, table_type from information_schema.tables
    where table_type <> 'BASE TABLE' and lower(table_name) = lower(%s) and (%s = '' or lower(table_schema) = lower(%s))
"""
IDS = "select name, table_id, space from information_schema.innodb_{}tables where name = %s or name like %s order by 1"
"""The numbers of the files of a table and its partitions: another one for each file that takes their place."""
NO_PRIVILEGE = 1227
CHANGES = {
    1146: "it was dropped or renamed",
    1054: "a column was dropped or renamed",
    1205: f"another statement has locked it for {LOCK_WAIT_S} seconds",
    1213: "a lock on it would have waited for one that waits for it",
    1412: "it was truncated or written anew (TRUNCATE, ALTER TABLE, OPTIMIZE TABLE)",
}
"""By number, what an error while a table is read says of it."""
FORBIDDEN = (1142, 1143)
NEW = timedelta(seconds=2)
"""How long before a snapshot a table must have got its definition: the server dates them by whole seconds."""
NO_POSITION = "does not say its position in the binlog: switch log_bin on, and grant {} to the user"


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
        self._stored = dict[str, Stored | None]()
        """By declared name, what the catalog said of each table before the snapshot; None: it has no such table."""
        self._at: datetime | None = None
        """When the snapshot was taken."""
        seconds = limits.statement
        timeout = (
            f"max_statement_time = {seconds}" if self.is_mariadb else f"max_execution_time = {int(seconds * 1000)}"
        )
        self._ask(
            f"set session {timeout}, lock_wait_timeout = {max(1, min(LOCK_WAIT_S, int(seconds)))},"
            " wait_timeout = 86400, time_zone = '+00:00', sql_mode = ''"
        )
        self._ask("set session transaction isolation level repeatable read")

    @staticmethod
    def reason(error: Exception) -> str:
        """Return the first line of what the server says of an error, without its number."""
        return str(error.args[-1] if error.args else error).strip().splitlines()[0]

    def _prepare_beside(self) -> None:
        """Let each statement of the second connection see what is committed, until a transaction locks tables."""
        for setting in (
            f"set session lock_wait_timeout = {LOCK_WAIT_S}, wait_timeout = 86400, time_zone = '+00:00', sql_mode = ''",
            "set session transaction isolation level read committed",
        ):
            self._ask(setting, connection=self._beside)

    def _change(self, error: BaseException) -> str:
        """Return why a driver's error shows that a table is not the one of the snapshot; "": it does not."""
        return CHANGES.get(error.args[0], "") if error.args else ""

    def _is_forbidden(self, error: BaseException) -> bool:
        """Return whether a driver's error says that the user may not read a table."""
        return bool(error.args) and error.args[0] in FORBIDDEN

    def begin(self, tables: Sequence[Table] = ()) -> Moment:
        """Begin a new snapshot in which some tables will be read, and end the one before.

        Raises ConfigurationError where the server does not say where in its binlog the snapshot lies.
        """
        self._connection.rollback()
        self._look_at(tables)
        exact = self._ask("show status like 'binlog_snapshot_%%'")
        before = None if exact else self._position()
        executed = None if exact else self._executed()
        if not exact and executed is None:
            time.sleep(SETTLING)
        self._ask("start transaction with consistent snapshot, read only")
        (at,) = self._one("select utc_timestamp(6)")
        self._at = at
        if before is None:
            status = dict(self._ask("show status like 'binlog_snapshot_%%'"))
            file, within = (status.get(f"Binlog_snapshot_{name}", "") for name in ("file", "position"))
            here = binlog_position(file, within)
            if here is None:
                raise ConfigurationError("the database has no binlog: switch log_bin on")
            return Moment(here - 1, here - 1, at)
        return Moment(before - 1, self._position() - 1, at, executed)

    def _look_at(self, tables: Sequence[Table]) -> None:
        """Remember what the catalog says of tables, and lock them where it does not say all of it."""
        self._ask_beside("rollback")
        self._stored = {table.name: self._stored_now(table) for table in tables}
        known = {name: each for name, each in self._stored.items() if each is not None}
        if all(each.ids is not None for each in known.values()):
            return
        self._ask_beside("start transaction read only")
        for name, each in known.items():
            try:
                self._ask_beside(f"select 1 from {each.name} limit 0")
            except SourceUnavailable as error:
                # It is found out again, and said, where the table is read.
                LOG.info(f"[audit] {name} is not locked: {error}")
        self._stored = {table.name: self._stored_now(table) for table in tables}

    def _stored_now(self, table: Table) -> Stored | None:
        """Return what the catalog says of a table now; None where there is none, or more than one."""
        rows = self._ask_beside(COLUMNS, self._sought(table))
        names = {(row[0], row[1]) for row in rows}
        if len(names) != 1:
            return None
        ((schema, name),) = names
        created = max((row[8] for row in rows if row[8] is not None), default=None)
        columns = tuple(sorted((row[7], row[2], row[4]) for row in rows))
        return Stored(f"{quoted(schema)}.{quoted(name)}", columns, created, self._ids(schema, name))

    def _ids(self, schema: str, name: str) -> tuple[Any, ...] | None:
        """Return the numbers of the files of a table; None where this user may not know them."""
        prefix = f"{schema}/{name}".replace("\\", "\\\\").replace("_", r"\_").replace("%", r"\%")
        try:
            rows = self._ask_beside(IDS.format("sys_" * self.is_mariadb), (f"{schema}/{name}", f"{prefix}#p#%"))
        except SourceUnavailable as error:
            if error.__cause__ is not None and error.__cause__.args[:1] == (NO_PRIVILEGE,):
                return None
            raise
        return tuple(rows) or None

    @contextmanager
    def reading(self, table: Table) -> Iterator[Relation]:
        """Return the table that a declared one is, locked for a block that reads it within the snapshot.

        MariaDB keeps the lock until the snapshot ends.

        Raises:
            ConfigurationError: as `relation`.
            TableChanged: the table is not the one of the snapshot any more.
        """
        before = self._stored.get(table.name)
        if before is None:
            self.relation(table)
            raise TableChanged("it was not there when the snapshot was taken")
        with self._guarded(table.name, lambda: self._lock_rows(before), lambda: self._refuse_changed(table, before)):
            self._take()
            relation = self.relation(table)
            if before.created is not None and self._at is not None and before.created > self._at - NEW:
                raise TableChanged("it was made or altered just before it was to be read")
            self._let_go()
            yield relation

    def _let_go(self) -> None:
        """Give the table of a block up; MariaDB keeps the lock, so that there is nothing to look at again."""
        if not self.is_mariadb:
            super()._let_go()

    def _lock_rows(self, stored: Stored) -> None:
        """Lock a table's definition against TRUNCATE, ALTER TABLE and RENAME TABLE until the transaction ends."""
        self._ask(f"select 1 from {stored.name} limit 0")

    def _refuse_changed(self, table: Table, before: Stored) -> None:
        """Raise TableChanged where the catalog says something else of a table than before the snapshot."""
        if self._stored_now(table) != before:
            raise TableChanged("its definition or its partitions were changed (ALTER TABLE, RENAME TABLE)")

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
        compared, or its engine has no snapshots; TableChanged where the catalog cannot tell.
        """
        name, columns = self._columns(table)
        return relation_of(table, name, columns)

    def _columns(self, table: Table) -> tuple[str, dict[str, Column]]:
        """Return the quoted name of the one table that a declaration can mean, and its columns by lower-case name."""
        rows = self._ask(COLUMNS, self._sought(table))
        relations = {(row[0], row[1], row[6]) for row in rows}
        if len(relations) != 1:
            others = [f"{row[0]}.{row[1]} ({row[2].lower()})" for row in self._ask(OTHER_KINDS, self._sought(table))]
            known = ", ".join(f"{each[0]}.{each[1]}" for each in sorted(relations)) or ", ".join(others) or "none"
            raise ConfigurationError(f"{table.name}: expected one table {table.source} in the database, found {known}")
        ((schema, name, engine),) = relations
        if engine is None:
            raise TableChanged(
                "another statement is about to change it, or it is damaged: the catalog has no engine of it"
            )
        if engine.lower() != "innodb":
            raise ConfigurationError(f"{table.name}: {schema}.{name} is of engine {engine}, which has no snapshots")
        columns = {row[2].lower(): Column(row[2], held(row[3], row[4], row[5])) for row in rows}
        return f"{quoted(schema)}.{quoted(name)}", columns

    @staticmethod
    def _sought(table: Table) -> tuple[str, str, str]:
        """Return the name, and twice the schema, by which the catalog is asked for a declared table."""
        schema, _, name = table.source.rpartition(".")
        schema = schema.rpartition(".")[2]
        return name, schema, schema

    def total(self, relation: Relation, low: Handle, high: Handle) -> tuple[int, int]:
        """Return how many rows a key range has and the sum of their digests; an empty bound is none."""
        if relation.forms:
            rows = self._digested(relation, low, high)
            return len(rows), sum(digest for _, _, digest in rows)
        condition, values = relation.within(low, high)
        begun = time.monotonic()
        sql = f"select count(*), coalesce(sum(digest), 0) from ({relation.digests(condition)}) d"
        ((count, total),) = self._read(sql, values)
        self._wait(int(count), begun)
        return int(count), int(total)

    def listed(self, relation: Relation, low: Handle, high: Handle) -> dict[Key, tuple[Handle, int]]:
        """Return by canonical key the key of a range, and the sum of the digests of all rows that have it."""
        return summed(self._digested(relation, low, high))

    def _digested(self, relation: Relation, low: Handle, high: Handle) -> list[tuple[Key, Handle, int]]:
        """Return canonical key, key and digest of rows; where JSON has to be parsed, this process makes the digests."""
        condition, values = relation.within(low, high)
        begun, width = time.monotonic(), len(relation.key)
        if relation.forms:
            read = self._read(relation.rows(condition), values)
            texts = _parsed(relation, read)
            columns = [pa.array(column, pa.string()) for column in zip(*texts, strict=True)]
            digests = canonical_texts.digests(canonical_texts.row_texts(columns)).tolist() if texts else []
            pairs = zip(texts, read, digests, strict=True)
            rows = [(text[:width], row[-width:], digest) for text, row, digest in pairs]
        else:
            read = self._read(relation.digests(condition), values)
            rows = [(row[:width], row[width:-1], int(row[-1] or 0)) for row in read]
        self._wait(len(rows), begun)
        return rows

    def rows_of(self, relation: Relation, keys: Sequence[Handle]) -> dict[Key, list[Texts]]:
        """Return the canonical texts of rows by their canonical keys; a row that is not there is left out."""
        width, there = len(relation.key), dict[Key, list[Texts]]()
        for start in range(0, len(keys), AT_ONCE):
            condition, values = relation.among(keys[start : start + AT_ONCE])
            begun = time.monotonic()
            rows = _parsed(relation, self._read(relation.rows(condition), values))
            self._wait(len(rows), begun)
            there |= by_key(rows, width)
        self._let_go()
        return there

    def position(self) -> int:
        """Return the position in the binlog that the server has reached."""
        self._connection.rollback()
        status = dict(self._ask("show status like 'binlog_snapshot_%%'"))
        file, within = (status.get(f"Binlog_snapshot_{name}", "") for name in ("file", "position"))
        here = binlog_position(file, within)
        return (self._position() if here is None else here) - 1

    def rows_now(self, relation: Relation, keys: Sequence[Handle]) -> dict[Key, list[Texts]]:
        """Return the rows of `rows_of` as the last commits left them; no lock is held afterwards.

        A snapshot begins with the first row that is read, when the table is locked already against TRUNCATE and ALTER.
        """
        there = dict[Key, list[Texts]]()
        for start in range(0, len(keys), AT_ONCE):
            self._connection.rollback()
            there |= self.rows_of(relation, keys[start : start + AT_ONCE])
        self._connection.rollback()
        return there


def _parsed(relation: Relation, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the canonical texts of rows, without the keys behind them; JSON is written anew."""
    width = len(relation.columns)
    texts = [row[:width] for row in rows]
    for number in (number for number, name in enumerate(relation.columns) if name in relation.forms):
        texts = [
            (*row[:number], canonical_texts.json_text(row[number]), *row[number + 1 :]) if row[number] else row
            for row in texts
        ]
    return texts


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
