"""Ask the source once more for the rows that a repair is about to delete, insert or change.

The invariant of a repair from a database, which `tests/steps/audit/test_second_look.py` holds:

- A row is deleted only if the source does not have it at a moment at or after the audit's csn. The source itself
  decides which rows have a key: its comparison may take keys for equal that are different texts.
- A row is inserted or changed only to the values that the audit read, and that the source has at that moment too.

Every other row is left out, with the reason. Its value may be newer than the audit's csn, and its own csn is unknown:
the stream brings it, and the next audit says whether it still differs.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config.models.pipeline import Table
from txloom.current.equality.row_images import image
from txloom.errors import SourceUnavailable
from txloom.events.images.reader import ImageReader
from txloom.storage.checks.audited_rows import Repair
from txloom.storage.databases.audit_source import Handle, Key, LiveSource, TableChanged, Texts
from txloom.storage.targets.lake_digests import audited_columns, texts_of

LOG = logging.getLogger(__name__)

PIECE_ROWS = 500
"""Rows that are asked for at once."""
IS_THERE = "the source has it"
IS_GONE = "the source no longer has it"
IS_OTHER = "the source has other values by now"
IS_REPEATED = "the source has several rows with its key"
HAS_NO_KEY = "its key has no value, so that the source cannot be asked for it"
IS_TAKEN_FOR_ANOTHER = "the source takes its key for that of another row of the lake"


@dataclass(frozen=True)
class SecondLook:
    """What the source says of rows when it is asked once more.

    Args:
        certain: the rows that it says the same of as the audit did.
        left: the others, each with the reason.
        unreadable: those whose audited values are not what the declaration says, each with the problem.
    """

    certain: list[Repair] = field(default_factory=list)
    left: list[tuple[Repair, str]] = field(default_factory=list)
    unreadable: list[tuple[Repair, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Row:
    repair: Repair
    key: Key
    handle: Handle


def look_again(source: LiveSource, table: Table, repairs: Sequence[Repair], *, is_whole: bool) -> SecondLook:
    """Ask the source for each row, in pieces, and say of which rows it says what the audit said.

    Args:
        source: the database, which may have moved on since the audit.
        table: the declared table.
        repairs: rows that the audit found to differ.
        is_whole: whether these are all rows of the table that differ.

    Raises:
        ConfigurationError: the database no longer has the table, or a column of it.
        SourceUnavailable: it does not answer, or has not reached the audit's csn: it is another server, or lags; or
            another statement is about to change the table.
    """
    if not repairs:
        return SecondLook()
    audited_csn, position = max(each.csn for each in repairs), source.position()
    if position < audited_csn:
        raise SourceUnavailable(
            f"{table.name}: the database is at csn {position}, and the audit read it at csn {audited_csn}. It is "
            "another server than the audit's, or a standby that lags: connect to that server, or wait and run again"
        )
    try:
        relation = source.relation(table)
    except TableChanged as change:
        raise SourceUnavailable(f"{table.name}: {change}") from change
    look = _Look(source, table, relation, is_whole)
    rows = look.readable(repairs)
    for piece in _pieces([row for row in rows if row.repair.op == "D"]):
        look.judge_deletes(piece)
    for piece in _pieces([row for row in rows if row.repair.op != "D"]):
        look.judge_others(piece)
    said = look.said
    LOG.info(
        f"[repair] {table.name}: the source says the same of {len(said.certain)} of {len(repairs)} rows, at csn "
        f"{position} or later"
    )
    return said


def _pieces(rows: Sequence[_Row]) -> list[Sequence[_Row]]:
    return [rows[start : start + PIECE_ROWS] for start in range(0, len(rows), PIECE_ROWS)]


@dataclass
class _Look:
    """What is known so far.

    Args:
        source: the database.
        table: the declared table.
        relation: the table in the database.
        is_whole: whether all rows of the table that differ are judged.
        said: the result.
        taken: keys of rows that the source has instead of one that would be deleted.
    """

    source: LiveSource
    table: Table
    relation: Any
    is_whole: bool
    said: SecondLook = field(default_factory=SecondLook)
    taken: set[Key] = field(default_factory=set)

    def readable(self, repairs: Sequence[Repair]) -> list[_Row]:
        """Return rows with their keys as the source takes them; those that cannot be asked for are left out."""
        # As an update the reader takes any columns that there are: a delete has only those of the key.
        messages = [b'{"op_type":"U","after":' + each.image.encode() + b"}" for each in repairs]
        typed = ImageReader(self.table).read(messages)
        after = typed.column("after").combine_chunks()
        keys = pa.table({name: pc.struct_field(after, name) for name in self.table.key})
        columns = audited_columns(self.table)[: len(self.table.key)]
        texts = zip(*(column.to_pylist() for column in texts_of(keys, columns, self.relation.forms)), strict=True)
        handles = [tuple(row.values()) for row in keys.to_pylist()]
        rows, problems = list[_Row](), typed.column("problem").to_pylist()
        for repair, problem, key, handle in zip(repairs, problems, texts, handles, strict=True):
            if problem is not None:
                self.said.unreadable.append((repair, problem))
            elif None in key:
                self.said.left.append((repair, HAS_NO_KEY))
            else:
                rows.append(_Row(repair, key, handle))
        return rows

    def judge_deletes(self, rows: Sequence[_Row]) -> None:
        """Judge rows that would be deleted."""
        there = self._ask(rows)
        self.said.left.extend((row.repair, IS_THERE) for row in rows if row.key in there)
        rest = [row for row in rows if row.key not in there]
        # Another row came than was asked for, where the source takes keys for equal: one by one it shows for which.
        if there and rest and self._ask(rest):
            for row in list(rest):
                if instead := self._ask([row]):
                    self.taken |= instead.keys()
                    rest.remove(row)
                    self.said.left.append((row.repair, IS_TAKEN_FOR_ANOTHER))
        self.said.certain.extend(row.repair for row in rest)

    def judge_others(self, rows: Sequence[_Row]) -> None:
        """Judge rows that would be inserted or changed, once those that would be deleted are judged."""
        there, columns = self._ask(rows), audited_columns(self.table)
        for row in rows:
            texts = there.get(row.key)
            if row.key in self.taken or (self.taken and row.repair.op == "r" and not self.is_whole):
                self.said.left.append((row.repair, IS_TAKEN_FOR_ANOTHER))
            elif texts is None:
                self.said.left.append((row.repair, IS_GONE))
            elif len(texts) > 1:
                self.said.left.append((row.repair, IS_REPEATED))
            elif image(columns, texts[0], self.relation.widths) != row.repair.image:
                self.said.left.append((row.repair, IS_OTHER))
            else:
                self.said.certain.append(row.repair)

    def _ask(self, rows: Sequence[_Row]) -> Mapping[Key, Sequence[Texts]]:
        return self.source.rows_now(self.relation, [row.handle for row in rows])
