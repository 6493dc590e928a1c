"""Positions of transactions and rows in a source's log, as Debezium's connectors send them.

The form of a transaction's id shows which database it comes from, and whether its END has the commit position:

    PostgreSQL  768:31361536                      transaction 768; on END the LSN after its commit, on rows their LSN
    MySQL       file=mysql-bin.000003,pos=1234    where the transaction begins in the binlog, which has commit order
    MySQL       36090175-...-080027ab29a2:37      a GTID, MariaDB's is 0-1-37: the position is in the rows only
    Oracle      5.6.641, 0500060081020000         the SCN of the commit is in the rows only
    SQL Server  00000025:00000d98:00a2            the LSN of the commit

A row of a snapshot has no transaction, nor has MySQL's TRUNCATE, which commits by itself and is not counted: MariaDB's
connector writes the statement's GTID on it, which no END follows.
PostgreSQL's rows of an incremental snapshot have no LSN, but in `sequence` that of the last commit before them, first.
Rows of one transaction with a GTID have different positions. The largest of them is in commit order too, on one server,
and is the csn at which history shows them all. Positions in the binlogs of two servers cannot be compared.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from txloom.config.identity import GTID
from txloom.events import rejections
from txloom.events.debezium.messages import SHAPE, Number, Source
from txloom.events.malformed import LARGEST, Poison, shown, unsigned

BINLOG = ("mysql", "mariadb")
_LSN = re.compile(r"([0-9]{1,20}):([0-9]{1,40})")
_FILE = re.compile(r"file=(.*),pos=([0-9]{1,40})")
_FILE_NUMBER = re.compile(r".*\.([0-9]{1,18})")
_XID = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+|[0-9a-fA-F]{16}|0x[0-9a-fA-F]+(?:\.[0-9a-fA-F]+){2}")
_FRESH = re.compile(r'\[\s*null\s*,\s*"[0-9]{1,20}"\s*\]')
_COMMIT_LSN = re.compile(r"([0-9a-fA-F]{8}):([0-9a-fA-F]{8}):([0-9a-fA-F]{4})")


class Transaction(NamedTuple):
    """A transaction's id; csn: the commit position in the id of END; connectors: those that write ids of this form."""

    id: str
    csn: int | None
    connectors: tuple[str, ...]


class Connector(NamedTuple):
    """How to read positions from one connector's messages.

    where: a text that distinguishes the changes in a log, except those of one statement. commit: the commit position in
    a row, where its transaction's id has none (None: only END has it). alone: the commit position of a change without a
    transaction. fields: the fields that the two come from. full_deletes: the image before a delete is the whole row.
    """

    where: Callable[[Source], str | None]
    commit: Callable[[Source], int | None] | None
    alone: Callable[[Source], int | None]
    fields: tuple[Sequence[str], Sequence[str]]
    full_deletes: bool

    def csn(self, source: Source, transaction: Transaction | None) -> int | None:
        """Return the commit position in a row, None where only END has it; raises Poison where it is missing."""
        of_row, alone = self.fields
        if transaction is None:
            return _known(self.alone(source), source, alone)
        if self.commit is None or transaction.csn is not None:
            return None if self.commit is None else transaction.csn
        return _known(self.commit(source), source, of_row)

    def at(self, source: Source) -> str:
        """Return the position of a change in the log, which a redelivery keeps; raises Poison where it is missing."""
        position = self.where(source)
        if position is None:
            raise Poison(rejections.NO_POSITION, f"`source` of connector {source.connector} does not say its position")
        return position


def read_transaction(raw: Number) -> Transaction:
    """Return the transaction of an id; of PostgreSQL's id only the first part is the same in all its messages.

    Raises Poison for a missing id, an unknown form, or a commit position of more than 63 bits.
    """
    if raw is None or raw == "":
        raise Poison(rejections.NO_TRANSACTION, "no transaction id: set provide.transaction.metadata=true")
    text = str(raw)
    if match := _LSN.fullmatch(text):
        return Transaction(match[1], _commit(unsigned(match[2]), text), ("postgresql",))
    if match := _FILE.fullmatch(text):
        return Transaction(text, _commit(binlog_position(match[1], match[2]), text), BINLOG)
    if GTID.fullmatch(text):
        return Transaction(text, None, BINLOG)
    if _XID.fullmatch(text):
        return Transaction(text, None, ("oracle",))
    if _COMMIT_LSN.fullmatch(text):
        return Transaction(text, _commit(packed_lsn(text), text), ("sqlserver",))
    raise Poison(SHAPE, f"transaction id {text[:80]!r}")


def binlog_position(file: str | None, pos: Number) -> int | None:
    """Return a position in a binlog as a number; None where it does not fit.

    >>> binlog_position("mysql-bin.000003", 1234) == 3 * 2**40 + 1234
    True
    """
    match, within = _FILE_NUMBER.fullmatch(file or ""), unsigned(pos)
    if match is None or within is None or within >> 40:
        return None
    return unsigned(int(match[1]) << 40 | within)


def packed_lsn(text: str | None) -> int | None:
    """Return SQL Server's LSN of three numbers as one: 23 bits for the log file, 24 for the block, 16 for the slot.

    >>> packed_lsn("00000025:00000d98:00a2") == 0x25 << 40 | 0xD98 << 16 | 0xA2
    True
    """
    match = _COMMIT_LSN.fullmatch(text or "")
    if match is None:
        return None
    file, block, slot = (int(part, 16) for part in match.groups())
    return None if file >> 23 or block >> 24 else file << 40 | block << 16 | slot


def connector_of(source: Source, transaction: Transaction | None) -> Connector:
    """Return a row's connector; raises Poison if it is unknown, or does not write transaction ids of this form."""
    known = CONNECTORS.get(source.connector)
    if known is None or (transaction is not None and source.connector not in transaction.connectors):
        shown = "" if transaction is None else f" with transaction id {transaction.id!r}"
        raise Poison(SHAPE, f"connector {source.connector!r}{shown}")
    return known


def _commit(position: int | None, text: str) -> int:
    if position is None:
        raise Poison(rejections.NO_CSN, f"{text[:80]!r} has no commit position of at most {LARGEST.bit_length()} bits")
    return position


def _known(position: int | None, source: Source, fields: Sequence[str]) -> int:
    """Return a commit position; raises Poison for None, with the fields that should have it."""
    if position is None:
        fields_shown = ", ".join(f"`source.{name}` is {shown(getattr(source, name))}" for name in fields)
        raise Poison(rejections.NO_CSN, f"{fields_shown}: no commit position of at most {LARGEST.bit_length()} bits")
    return position


def _joined(*parts: Number) -> str | None:
    return ":".join(str(part) for part in parts if part is not None) or None


def last_commit(sequence: str | None) -> str | None:
    """Return the LSN of the last commit before a row, of `source.sequence`; before the first one the LSN of the read.

    >>> last_commit('["26382816","26383000"]'), last_commit('[null,"26382192"]'), last_commit("[]")
    ('26382816', '26382192', None)
    """
    known = re.findall(r'"([0-9]{1,20})"', sequence or "")
    return known[0] if known else None


def may_be_ahead(source: Source) -> bool:
    """Return whether a row of an incremental snapshot may have values of a later commit than that of its position.

    With `read.only`, PostgreSQL's connector may send rows while its stream is still behind the moment of their read. No
    message distinguishes these rows (ADR 55). The other connectors send a row once the stream has reached that moment.
    """
    return source.connector == "postgresql"


def is_where_streaming_begins(source: Source) -> bool:
    """Return whether a row of a snapshot shows that the connector took it to begin its stream anew.

    Such a snapshot has all rows of all captured tables at one moment, and the stream goes on from there. The connector
    reads for it into a place that is fresh: no commit came before in PostgreSQL's, no server in that of a binlog. Where
    it reads because somebody asked, it goes on from the place of its stream, and may read some rows alone. False also
    for connectors of which it is not known.
    """
    if source.connector == "postgresql":
        return _FRESH.fullmatch(source.sequence or "") is not None
    return source.connector in BINLOG and unsigned(source.server_id) == 0


def _at_lsn(source: Source) -> str | None:
    return _joined(last_commit(source.sequence) if source.lsn is None else source.lsn)


def _at_binlog(source: Source) -> str | None:
    return None if source.file is None or source.pos is None else _joined(source.file, source.pos, source.row)


def _at_scn(source: Source) -> str | None:
    return _joined(source.scn, source.lcr_position, source.rs_id, source.ssn, source.row_id)


def _at_change(source: Source) -> str | None:
    return _joined(source.change_lsn or source.commit_lsn, source.event_serial_no)


def _lsn(source: Source) -> int | None:
    return unsigned(last_commit(source.sequence) if source.lsn is None else source.lsn)


def _in_binlog(source: Source) -> int | None:
    return binlog_position(source.file, source.pos)


def _commit_scn(source: Source) -> int | None:
    return unsigned(source.commit_scn)


def _scn(source: Source) -> int | None:
    return unsigned(source.scn)


def _commit_lsn(source: Source) -> int | None:
    return packed_lsn(source.commit_lsn)


_BINLOG = ("file", "pos")
_MYSQL = Connector(_at_binlog, _in_binlog, _in_binlog, (_BINLOG, _BINLOG), full_deletes=True)
CONNECTORS = {
    "postgresql": Connector(_at_lsn, None, _lsn, ((), ("lsn", "sequence")), full_deletes=False),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "oracle": Connector(_at_scn, _commit_scn, _scn, (("commit_scn",), ("scn",)), full_deletes=True),
    "sqlserver": Connector(_at_change, _commit_lsn, _commit_lsn, (("commit_lsn",),) * 2, full_deletes=True),
}
"""PostgreSQL's image before a delete is whole only under REPLICA IDENTITY FULL, which no message shows; otherwise its
values outside the key are made up."""
