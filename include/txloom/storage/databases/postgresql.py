"""A PostgreSQL database at one moment: digests of key ranges, and rows by their keys, in one read-only transaction.

The transaction is REPEATABLE READ: all that it reads is one snapshot. TRUNCATE, an ALTER TABLE that rewrites and some
others are not: a snapshot from before reads what they left. So a table is locked (ACCESS SHARE) while it is read, and
what the catalog says of it must be the same in the snapshot and now, before and after.

Its place in the log is known from both sides:
what was committed up to `Moment.surely` is in it, but for the transactions in `running` and those from `next_xid` on,
and nothing above `Moment.at_most` is. A transaction writes its commit into the log before others see what it did.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import psycopg2

from txloom.config.models.pipeline import Table
from txloom.current.equality import postgresql_texts
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.storage.databases.audit_source import LOCK_WAIT_S, Handle, Key, Limits, TableChanged, Texts, by_key
from txloom.storage.databases.connection import AT_ONCE, Connection
from txloom.storage.databases.postgresql_moment import Moment
from txloom.storage.databases.postgresql_relation import Column, Relation
from txloom.storage.delta.sql import sql_name
from txloom.storage.targets.lake_digests import summed

LOG = logging.getLogger(__name__)

OLDEST = 140_000
"""The oldest version whose times are exact numbers (`extract`), as `server_version_num` has it."""
_HERE = "case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end"
POSITION = f"{_HERE} - '0/0'::pg_lsn"
RUNNING = "select (x::text::numeric % 4294967296)::text from pg_snapshot_xip(pg_current_snapshot()) x"
"""Transactions by the 32 bits of their number that the log has."""
NEXT = "(pg_snapshot_xmax(pg_current_snapshot())::text::numeric % 4294967296)"
COLUMNS = """
    select n.nspname, c.relname, a.attname, b.typname, format_type(b.oid, -1), b.typmod, b.typtype,
        a.attnotnull, c.oid::bigint, row_security_active(c.oid)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    cross join lateral (
        with recursive held (oid, typmod, depth) as (
            select a.atttypid, a.atttypmod, 0
            union all
            select case when t.typtype = 'd' then t.typbasetype else t.typelem end,
                case when t.typtype = 'd' and t.typtypmod <> -1 then t.typtypmod else h.typmod end, h.depth + 1
            from held h join pg_type t on t.oid = h.oid
            where t.typtype = 'd' or (t.typcategory = 'A' and t.typelem <> 0)
        )
        select t.oid, t.typname, t.typtype, h.typmod from held h join pg_type t on t.oid = h.oid
        order by h.depth desc limit 1
    ) b
    where c.relkind in ('r', 'p') and lower(c.relname) = lower(%s) and (%s = '' or lower(n.nspname) = lower(%s))
"""
"""Each column with the type below its domains and arrays."""
STORED = """
    with recursive member (oid, pending) as (
        select %s::oid, false
        union
        select i.inhrelid, to_jsonb(i) ->> 'inhdetachpending' = 'true'
        from pg_inherits i join member m on i.inhparent = m.oid
    )
    select c.oid::bigint, c.relnamespace::bigint, c.relname, c.relkind, c.relpersistence, c.relfilenode::bigint,
        coalesce(m.pending, false),
        (select string_agg(concat_ws(' ', attnum, atttypid, atttypmod, attname), ',' order by attnum)
         from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped)
    from member m join pg_class c on c.oid = m.oid order by 1, 7
"""
"""What says where the rows of a table and of its partitions lie, and what their columns are.

What makes rows visible to no older snapshot puts them into another file: TRUNCATE, an ALTER TABLE that rewrites.
CLUSTER and VACUUM FULL do so too, and keep the rows' versions: the table is looked at again.
"""
CHANGES = {
    "55P03": f"another statement has locked it for {LOCK_WAIT_S} seconds",
    "40P01": "a lock on it would have waited for one that waits for it",
    "42P01": "it was dropped or renamed",
    "42703": "a column was dropped or renamed",
}
"""By SQLSTATE, what an error while a table is read says of it."""
FORBIDDEN = "42501"
OTHER_KINDS = """
    select n.nspname || '.' || c.relname, c.relkind
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('v', 'm', 'f') and lower(c.relname) = lower(%s) and (%s = '' or lower(n.nspname) = lower(%s))
"""
KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
"""What has no rows of its own in the log (`pg_class.relkind`)."""


class Postgresql(Connection):
    """One read-only connection to a database; `mark` opens another."""

    errors = psycopg2.Error
    formats_always = False

    def begin(self, tables: Sequence[Table] = ()) -> Moment:  # noqa: ARG002 (a table is locked where it is read)
        """Begin a new snapshot, and end the one before."""
        self._connection.rollback()
        self._connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        (surely,) = self._one(f"select {POSITION}")
        self._connection.rollback()
        self._prepare_transaction()
        at, in_progress, next_xid = self._one(f"select clock_timestamp(), array({RUNNING}), {NEXT}")
        (at_most,) = self._one(f"select {POSITION}")
        return Moment(int(surely), int(at_most), frozenset(in_progress), int(next_xid), at)

    def _prepare_transaction(self) -> None:
        """Say how long a statement of a new transaction may take and wait for a lock, and how numbers are written.

        A policy that hides rows is an error then: they would be taken for ones that the source does not have.
        """
        self._ask(f"set local statement_timeout = {int(self._limits.statement * 1000)}")
        self._ask(f"set local lock_timeout = {LOCK_WAIT_S * 1000}")
        self._ask("set local row_security = off")
        self._ask("set local extra_float_digits = 1")

    def _prepare_beside(self) -> None:
        """Let each statement of the second connection see what is committed."""
        self._beside.set_session(readonly=True, autocommit=True)

    def _change(self, error: BaseException) -> str:
        """Return why a driver's error shows that a table is not the one of the snapshot; "": it does not."""
        return CHANGES.get(getattr(error, "pgcode", None) or "", "")

    def _is_forbidden(self, error: BaseException) -> bool:
        """Return whether a driver's error says that the user may not read a table."""
        return getattr(error, "pgcode", None) == FORBIDDEN

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

    @contextmanager
    def reading(self, table: Table) -> Iterator[Relation]:
        """Return the table that a declared one is, locked for a block that reads it within the snapshot.

        Nothing is locked outside of the block, so that no statement of the source waits while the audit waits.

        Raises:
            ConfigurationError: as `relation`, or the user may not read it, or a partition is a foreign table.
            TableChanged: the table is not the one of the snapshot any more.
        """
        relation = self.relation(table)
        stored = self._ask(STORED, (relation.oid,))
        if foreign := ", ".join(str(row[2]) for row in stored if row[3] == "f"):
            raise ConfigurationError(f"{table.name}: {foreign} is a foreign table, of whose rows there is no snapshot")
        # What comes without a lock that conflicts with a reader's, as a partition does, is seen by the check.
        with self._guarded(
            table.name, lambda: self._lock_rows(relation), lambda: self._refuse_changed(relation, stored)
        ):
            yield relation

    def _lock_rows(self, relation: Relation) -> None:
        """Lock a table and its partitions against TRUNCATE and ALTER TABLE (ACCESS SHARE) until the transaction ends.

        LOCK TABLE would need more than the right to read these columns.
        """
        self._ask(f"select {', '.join(relation.texts)} from {relation.name} limit 0")

    def _refuse_changed(self, relation: Relation, stored: Sequence[tuple[Any, ...]]) -> None:
        """Raise TableChanged where rows of a table lie elsewhere than in the snapshot; stored: as it has them."""
        now = self._ask_beside(STORED, (relation.oid,))
        if now != stored:
            raise TableChanged(_what_changed(stored, now))

    def relation(self, table: Table) -> Relation:
        """Return the table of the database that a declared one is.

        Raises ConfigurationError where there is none, more than one, a column is missing, or policies hide rows.
        """
        (schema, name, oid, is_filtered), columns = self._columns(table)
        if is_filtered:
            raise ConfigurationError(
                f"{table.name}: row-level security hides rows of {schema}.{name} from the audit's user, which would be "
                "taken for rows that the source does not have: give the user BYPASSRLS"
            )
        if missing := [column.source for column in table.columns if column.find_source(columns) not in columns]:
            raise ConfigurationError(f"{table.name}: {table.source} has no column {', '.join(missing)} in the database")
        ordered = [*(table.column(name) for name in table.key), *(c for c in table.columns if c.name not in table.key)]
        known = {column.name: columns[column.find_source(columns)] for column in ordered}
        quoted = {name: sql_name(column.name) for name, column in known.items()}
        keys = [known[each].key(quoted[each], table.column(each).type) for each in table.key]
        texts = [postgresql_texts.canonical(quoted[c.name], c.type, known[c.name].base) for c in ordered]
        declared = {source.lower() for column in table.columns for source in column.sources}
        return Relation(
            name=f"{sql_name(schema)}.{sql_name(name)}",
            oid=oid,
            key=tuple(key for key, _, _ in keys),
            order=tuple(order for _, order, _ in keys),
            key_types=tuple(kind for _, _, kind in keys),
            texts=tuple(texts),
            forms={name: form for name, c in known.items() if (form := postgresql_texts.FORMS.get(c.base))},
            widths={name: column.width for name, column in known.items() if column.base == "bpchar"},
            nullable=tuple(quoted[each] for each in table.key if not known[each].is_required),
            undeclared=tuple(column.name for name, column in columns.items() if name not in declared),
        )

    def _columns(self, table: Table) -> tuple[tuple[str, str, int, bool], dict[str, "Column"]]:
        """Return the one table that a declaration can mean, and its columns by lower-case name.

        Of the table: schema, name, number, and whether policies hide rows of it from this user.
        """
        schema, _, name = table.source.rpartition(".")
        schema = schema.rpartition(".")[2]
        rows = self._ask(COLUMNS, (name, schema, schema))
        relations = {(row[0], row[1], row[8], row[9]) for row in rows}
        if len(relations) != 1:
            others = [f"{name} ({KINDS[kind]})" for name, kind in self._ask(OTHER_KINDS, (name, schema, schema))]
            known = ", ".join(f"{each[0]}.{each[1]}" for each in sorted(relations)) or ", ".join(others) or "none"
            raise ConfigurationError(f"{table.name}: expected one table {table.source} in the database, found {known}")
        return relations.pop(), {row[2].lower(): Column(*row[2:8]) for row in rows}

    def total(self, relation: Relation, low: Handle, high: Handle) -> tuple[int, int]:
        """Return how many rows a key range has and the sum of their digests; an empty bound is none."""
        sql = f"select count(*), coalesce(sum(digest), 0) from ({relation.digests(relation.within(low, high))}) d"
        begun = time.monotonic()
        ((count, total),) = self._read(sql, [*low, *high])
        self._wait(int(count), begun)
        return int(count), int(total)

    def listed(self, relation: Relation, low: Handle, high: Handle) -> dict[Key, tuple[Handle, int]]:
        """Return by canonical key the key of a range, and the sum of the digests of all rows that have it."""
        begun, width = time.monotonic(), len(relation.key)
        rows = self._read(relation.digests(relation.within(low, high)), [*low, *high])
        self._wait(len(rows), begun)
        return summed((row[:width], row[width:-1], int(row[-1])) for row in rows)

    def rows_of(self, relation: Relation, keys: Sequence[Handle]) -> dict[Key, list[Texts]]:
        """Return the canonical texts of rows by their canonical keys; a row that is not there is left out."""
        read, width = ", ".join(relation.texts), len(relation.key)
        there = dict[Key, list[Texts]]()
        for start in range(0, len(keys), AT_ONCE):
            some, begun = keys[start : start + AT_ONCE], time.monotonic()
            sql = f"select {read} from {relation.name} where {relation.among(len(some))}"
            rows = self._read(sql, [value for key in some for value in key])
            self._wait(len(rows), begun)
            # Where the database takes several texts for one key, a row may come for each of them, and is the same.
            there |= by_key(rows, width)
        self._let_go()
        return there

    def position(self) -> int:
        """Return the position in the log that the server has reached."""
        self._connection.rollback()
        (position,) = self._one(f"select {POSITION}")
        self._connection.rollback()
        return int(position)

    def rows_now(self, relation: Relation, keys: Sequence[Handle]) -> dict[Key, list[Texts]]:
        """Return the rows of `rows_of` as the last commits left them; no lock is held afterwards.

        The table is locked before a statement takes its snapshot (READ COMMITTED): a snapshot that is older than a
        TRUNCATE or a rewriting ALTER TABLE would show an empty table.
        """
        there = dict[Key, list[Texts]]()
        for start in range(0, len(keys), AT_ONCE):
            self._connection.rollback()
            self._connection.set_session(isolation_level="READ COMMITTED", readonly=True)
            self._prepare_transaction()
            self._lock_rows(relation)
            there |= self.rows_of(relation, keys[start : start + AT_ONCE])
        self._connection.rollback()
        return there


def _what_changed(before: Sequence[tuple[Any, ...]], now: Sequence[tuple[Any, ...]]) -> str:
    """Return what happened to a table between two looks at where its rows lie (STORED)."""
    old, new = {row[0]: row for row in before}, {row[0]: row for row in now}
    if old.keys() != new.keys():
        return "a partition or a child was attached or detached" if len(before) + len(now) > 2 else "it was dropped"
    changed = [(row, new[oid]) for oid, row in old.items() if row != new[oid]]
    if any(row[5] != other[5] for row, other in changed):
        return "it was truncated or written anew (TRUNCATE, ALTER TABLE, VACUUM FULL, CLUSTER)"
    return "its name or its columns were changed (ALTER TABLE)"


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
