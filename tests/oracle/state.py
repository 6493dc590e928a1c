"""Fold whole transactions in commit order into what the source's tables held as of a csn."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from oracle.capture import Event, Image, Key, Transaction
from oracle.declarations import ORDER, Aggregate, Table
from oracle.documents import Document, Moves, documents

State = dict[str, dict[Key, Image]]


def key_of(image: Image, table: Table) -> Key | None:
    """Return the key that an image names, or None when it does not name all of it."""
    parts = [image.get(column) for column in table.key]
    return None if None in parts else tuple(str(part) for part in parts)


def apply(rows: dict[Key, Image], event: Event, table: Table) -> None:
    """Apply one event to a table's rows; rows are replaced, never changed in place."""
    before, after = event.before or {}, event.after or {}
    blank: Image = dict.fromkeys(table.columns)
    if event.op == "T":
        rows.clear()
    elif event.op == "D":
        rows.pop(_known(key_of(before, table)), None)
    elif event.op == "I":
        rows[_known(key_of(after, table))] = {**blank, **after}
    elif event.op == "U":
        # What `after` leaves out is unchanged, and unchanged means the value of the row under its OLD key.
        old = rows.pop(_known(key_of(before, table) or key_of(after, table)), {})
        image = {**blank, **before, **old, **after}
        rows[_known(key_of(image, table))] = image
    else:
        raise ValueError(f"no such operation: {event.op!r}")


@dataclass
class Fold:
    """The tables after some prefix of the transactions; with `follow`, children go where their root's key goes."""

    transactions: list[Transaction]
    tables: Mapping[str, Table]
    follow: Aggregate | None = None
    state: State = field(default_factory=dict)
    applied: int = 0

    def __post_init__(self) -> None:
        self.state = {name: {} for name in self.tables}

    @property
    def csn(self) -> int:
        """Return the csn of the last applied transaction, or -1."""
        return self.transactions[self.applied - 1].csn if self.applied else -1

    def advance_to(self, csn: int) -> None:
        """Apply all further transactions up to and including this csn."""
        while self.applied < len(self.transactions) and self.transactions[self.applied].csn <= csn:
            self._apply_transaction(self.transactions[self.applied])
            self.applied += 1

    def snapshot(self) -> State:
        """Return the state as it is now; later steps leave it alone."""
        return {name: dict(rows) for name, rows in self.state.items()}

    def _apply_transaction(self, transaction: Transaction) -> None:
        moves = Moves(self.follow, self.tables) if self.follow else None
        for event in transaction.events:
            if moves:
                moves.note(event, self.state)
            apply(self.state[event.table], event, self.tables[event.table])
        if moves:
            moves.settle(self.state)


class Committed(Protocol):
    """What tells of a source: its transactions in commit order, and its tables."""

    @property
    def transactions(self) -> list[Transaction]: ...

    @property
    def tables(self) -> Mapping[str, Table]: ...


class Source:
    """The source database as a capture tells it; asking for rising csns costs one pass over the events."""

    def __init__(self, capture: Committed) -> None:
        self._tables = capture.tables
        self._whole = [transaction for transaction in capture.transactions if transaction.whole]
        self._folds: dict[tuple[frozenset[str], Aggregate | None], Fold] = {}

    @property
    def csns(self) -> list[int]:
        """Return the csn of every whole transaction, rising."""
        return [transaction.csn for transaction in self._whole]

    def state_as_of(self, csn: int, excluding: Collection[str] = ()) -> State:
        """Return every table's rows as text as of this csn, without the transactions (xids) that are excluded."""
        return self._fold_at(csn, frozenset(excluding), None).snapshot()

    def documents_as_of(
        self, csn: int, excluding: Collection[str] = (), aggregate: Aggregate = ORDER
    ) -> dict[Key, Document]:
        """Return the aggregate's documents as text as of this csn, keyed by the root's key."""
        return documents(self._fold_at(csn, frozenset(excluding), aggregate).state, aggregate, self._tables)

    def states(self, excluding: Collection[str] = ()) -> Iterator[tuple[int, State]]:
        """Yield csn and state after every whole transaction."""
        for csn in self.csns:
            yield csn, self.state_as_of(csn, excluding)

    def _fold_at(self, csn: int, excluding: frozenset[str], follow: Aggregate | None) -> Fold:
        fold = self._folds.get((excluding, follow))
        if fold is None or fold.csn > csn:
            transactions = [transaction for transaction in self._whole if transaction.xid not in excluding]
            fold = self._folds[excluding, follow] = Fold(transactions, self._tables, follow)
        fold.advance_to(csn)
        return fold


def _known(key: Key | None) -> Key:
    if key is None:
        raise ValueError("an event that does not name its key")
    return key
