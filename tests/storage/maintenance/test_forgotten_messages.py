"""Messages are removed as by a rule that looks at everything, though each run looks at little."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from txloom.config import names
from txloom.steps.step import no_session
from txloom.storage.dead_letters.open_letters import REDRIVE
from txloom.storage.delta import small_tables
from txloom.storage.maintenance.forgotten_messages import Forgotten, forget_messages
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import (
    CHANGE_EVENTS,
    DEAD_LETTERS,
    LANDED_FILES,
    PENDING_TRANSACTIONS,
    TRANSACTIONS,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
IDS = ("a", "b", "c")
PLACE = {"topic": "t", "file": "f"}
STEPS = st.tuples(
    st.sampled_from(["land", "land", "land unwatched", "name", "release", "give up", "again", "earlier"]),
    st.sampled_from([*IDS, None]),
)
"""What happens to the transactions of an id. Rows of None are unwatched; name: its metadata comes; again, earlier: the
id is used by another transaction, which lies behind the others or before them."""


def at(landing: int) -> datetime:
    """Return when a landing was."""
    return START + timedelta(hours=landing)


@dataclass
class Transaction:
    """A transaction as its source knows it.

    rows: landing of each watched row, and whether it is a dead letter. unwatched: landings of the others.
    """

    identity: str
    csn: int
    is_named: bool = False
    status: str = "open"
    rows: dict[int, bool] = field(default_factory=dict)
    unwatched: list[int] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Return whether the buffer holds it, or gave it up."""
        return self.status == "dead" or (self.status == "open" and bool(self.rows or self.is_named))


@dataclass
class Past:
    """Rows, transactions and dead letters as the buffer would have written them; has_csn: rows name their csn."""

    paths: TablePaths
    has_csn: bool = False
    landing: int = 0
    release: int = 0
    unwatched: list[int] = field(default_factory=list)
    all: list[Transaction] = field(default_factory=list)
    newest: dict[str, Transaction] = field(default_factory=dict)

    def take(self, what: str, identity: str | None) -> None:
        """Let something happen, if it can."""
        if identity is None:
            if what.startswith("land"):
                self._land({"kind": "row", "transaction_id": "nobody", "table": None, "value": "{}"})
                self.unwatched.append(self.landing)
            return
        transaction = self.newest.get(identity) or self._begin(identity, 1000)
        if what == "land":
            self._land_row(transaction)
        elif what == "land unwatched":
            self._land({"kind": "row", "table": None, "value": "{}"} | self._whose(transaction))
            transaction.unwatched.append(self.landing)
        elif what == "name":
            self._name(transaction)
        elif what in ("again", "earlier"):
            self._use_again(what, transaction)
        elif transaction.rows and transaction.status != "released":
            self._decide(what, transaction)

    def _begin(self, identity: str, csn: int) -> Transaction:
        transaction = Transaction(identity, csn)
        self.newest[identity] = transaction
        self.all.append(transaction)
        return transaction

    def _use_again(self, what: str, transaction: Transaction) -> None:
        """Begin another transaction of an id; the buffer knows it for another one by its metadata or its place."""
        is_decided = transaction.status == "released" or (transaction.status == "dead" and transaction.is_named)
        if not is_decided:
            return
        csns = [each.csn for each in self.all if each.identity == transaction.identity]
        other = self._begin(transaction.identity, max(csns) + 100 if what == "again" else min(csns) - 100)
        if what == "earlier":
            self._name(other)

    def _land(self, row: dict[str, Any]) -> None:
        self.landing += 1
        event = PLACE | {"landing": self.landing, "row": 1, "line": self.landing, "landed_at": at(self.landing)}
        small_tables.append(self.paths.change_events, [event | row], CHANGE_EVENTS)

    def _name(self, transaction: Transaction) -> None:
        transaction.is_named = True
        self._land({"kind": "metadata", "transaction_id": transaction.identity, "csn": transaction.csn, "value": "{}"})

    def _land_row(self, transaction: Transaction) -> None:
        self._land({"kind": "row", "table": "orders", "value": "{}"} | self._whose(transaction))
        is_late = transaction.status != "open"
        transaction.rows[self.landing] = is_late
        if is_late:
            self._dead(transaction, [self.landing])

    def _whose(self, transaction: Transaction) -> dict[str, Any]:
        """Return how a row shows its transaction: by its csn, or by its place before it in the log."""
        place = f"{transaction.csn - 10}:orders:c:1"
        named = {"csn": transaction.csn} if self.has_csn else {"identity": place}
        return {"transaction_id": transaction.identity, "xid": transaction.identity} | named

    def _decide(self, what: str, transaction: Transaction) -> None:
        if what == "release" and not self.has_csn and not transaction.is_named:
            self._name(transaction)
        if what == "release" and transaction.status == "dead" and not self.has_csn:
            self._redrive(transaction)
        self.release += 1
        held = [landing for landing, is_dead in transaction.rows.items() if not is_dead]
        csn = transaction.csn if self.has_csn or transaction.is_named else None
        about = {"transaction_id": transaction.identity, "xid": transaction.identity, "csn": csn}
        about |= {"release": self.release, "first_landed_at": at(min(held, default=self.landing))}
        transaction.status = "released" if what == "release" else "dead"
        row = about | {"status": transaction.status, "cause": None if what == "release" else "table short"}
        small_tables.append(self.paths.table(names.TRANSACTIONS), [row], TRANSACTIONS)
        if what == "give up":
            self._dead(transaction, held)
        else:
            transaction.rows = dict.fromkeys(transaction.rows, False)

    def _redrive(self, transaction: Transaction) -> None:
        """Land the dead letters of a transaction once more, at the places where they came from."""
        for line in [landing for landing, is_dead in transaction.rows.items() if is_dead]:
            row = {"kind": "row", "table": "orders", "value": "{}", "line": line}
            self._land(row | self._whose(transaction))
            planned = {"landing": self.landing, "run_id": "r", "topic": REDRIVE}
            small_tables.append(self.paths.landed_files, [planned], LANDED_FILES)
            transaction.rows[self.landing] = False

    def _dead(self, transaction: Transaction, landings: list[int]) -> None:
        letters = [
            PLACE | {"kind": "row", "landing": landing, "row": 1, "line": landing} | self._whose(transaction)
            for landing in landings
        ]
        if letters:
            small_tables.append(self.paths.dead_letters, letters, DEAD_LETTERS)
        transaction.rows.update(dict.fromkeys(landings, True))

    def buffered(self) -> None:
        """Write down what the buffer holds, and that it took every landing."""
        waiting = [each for each in self.all if each.status == "open" and each.is_open]
        rows = [
            {"transaction_id": each.identity, "csn": each.csn if each.is_named or self.has_csn else None}
            for each in waiting
        ]
        seen = {"release": self.release, "landing": self.landing}
        small_tables.replace(self.paths.table(names.PENDING_TRANSACTIONS), rows, PENDING_TRANSACTIONS, seen)

    def forgotten(self, landing: int) -> set[int]:
        """Return the landings whose row needs no message any more.

        A dead letter needs it as long as it is open: without a csn it is not known that its transaction was released.
        """
        mine = [
            at
            for each in self.all
            if each.status == "released"
            for at, is_dead in each.rows.items()
            if self.has_csn or not is_dead
        ]
        open_ids = {each.identity for each in self.all if each.is_open}
        others = [
            at
            for each in self.all
            if each.status == "released" or each.identity not in open_ids
            for at in each.unwatched
        ]
        return {at for at in (*mine, *others, *self.unwatched) if at <= landing}

    def without_message(self) -> set[int]:
        """Return the landings whose row has no message."""
        sql = "select landing from t where value is null and kind = 'row'"
        return {row["landing"] for row in small_tables.query(self.paths.change_events, sql)}


def empty(folder: Path) -> TablePaths:
    """Return the paths of tables without rows."""
    paths = TablePaths(str(folder), "p")
    for path, schema in (
        (paths.landed_files, LANDED_FILES),
        (paths.change_events, CHANGE_EVENTS),
        (paths.table(names.TRANSACTIONS), TRANSACTIONS),
        (paths.dead_letters, DEAD_LETTERS),
    ):
        small_tables.ensure(path, schema)
    return paths


@pytest.mark.long
@settings(deadline=None, max_examples=examples(16))
@given(
    has_csn=st.booleans(),
    rounds=st.lists(st.tuples(st.lists(STEPS, min_size=1, max_size=10), st.integers(0, 6)), min_size=2, max_size=4),
)
def test_every_run_removes_what_a_look_at_everything_would(
    spark: Any, tmp_path_factory: Any, has_csn: bool, rounds: list[tuple[list[tuple[str, str | None]], int]]
) -> None:
    paths = empty(tmp_path_factory.mktemp("forgotten"))
    past, since, expected = Past(paths, has_csn), Forgotten(), set[int]()
    for steps, young in rounds:
        for step in steps:
            past.take(*step)
        past.buffered()
        landing = max(past.landing - young, since.landing)
        expected |= past.forgotten(landing)
        before = past.without_message()
        count = forget_messages(lambda: spark, paths, landing, at(landing) + timedelta(minutes=1), since)
        assert past.without_message() == expected
        assert count == len(expected - before)
        since = Forgotten(landing, past.release)
        assert forget_messages(no_session, paths, landing, at(landing), since) == 0, "no JVM for what is done"


@pytest.mark.long
def test_a_dead_letter_that_a_redrive_released_needs_no_message_any_more(spark: Any, tmp_path: Path) -> None:
    paths = empty(tmp_path)
    past = Past(paths)
    for step in (("land", "a"), ("land", "b"), ("give up", "a")):
        past.take(*step)
    assert forget_messages(lambda: spark, paths, 2, at(2) + timedelta(minutes=1), Forgotten()) == 0
    since = Forgotten(2, past.release)
    for step in (("land", "c"), ("land", "d"), ("land", "d"), ("release", "a")):
        past.take(*step)
    assert forget_messages(lambda: spark, paths, 3, at(3) + timedelta(minutes=1), since) == 1
    assert past.without_message() == {1}


@pytest.mark.parametrize("has_csn", [False, True], ids=["by position", "by csn"])
def test_a_reused_id_takes_no_message_from_what_waits_or_is_dead(spark: Any, tmp_path: Path, has_csn: bool) -> None:
    paths = empty(tmp_path)
    past = Past(paths, has_csn)
    for what in ("land", "release", "again", "name", "land", "give up", "again", "land", "release", "again", "land"):
        past.take(what, "a")
    past.buffered()
    assert [each.status for each in past.all] == ["released", "dead", "released", "open"]
    assert forget_messages(lambda: spark, paths, 99, at(99), Forgotten()) == 2
    assert past.without_message() == {*past.all[0].rows, *past.all[2].rows}


def test_rows_that_nobody_watches_are_kept_while_their_transaction_may_be_released(spark: Any, tmp_path: Path) -> None:
    paths = empty(tmp_path)
    past = Past(paths)
    for what in ("land unwatched", "land", "give up"):
        past.take(what, "a")
    for what in ("land unwatched", "land"):
        past.take(what, "b")
    past.take("land unwatched", "c")
    past.buffered()
    assert forget_messages(lambda: spark, paths, past.landing, at(99), Forgotten()) == 1
    assert past.without_message() == {*past.newest["c"].unwatched}
    since = Forgotten(past.landing, past.release)
    for identity in ("a", "b"):
        past.take("release", identity)
    past.buffered()
    forget_messages(lambda: spark, paths, past.landing, at(99), since)
    assert past.without_message() >= {*past.newest["a"].unwatched, *past.newest["b"].unwatched}


def test_an_open_dead_letter_of_a_released_transaction_keeps_its_message(spark: Any, tmp_path: Path) -> None:
    paths = empty(tmp_path)
    past = Past(paths)
    for what in ("land", "release", "land"):
        past.take(what, "a")
    past.buffered()
    assert past.all[0].rows == {1: False, past.landing: True}
    assert forget_messages(lambda: spark, paths, past.landing, at(99), Forgotten()) == 1
    assert past.without_message() == {1}


def test_metadata_that_the_buffer_did_not_take_yet_counts(spark: Any, tmp_path: Path) -> None:
    paths = empty(tmp_path)
    past = Past(paths)
    for what in ("land", "release"):
        past.take(what, "a")
    past.buffered()
    past.take("earlier", "a")
    past.take("land", "a")
    assert forget_messages(lambda: spark, paths, past.landing, at(99), Forgotten()) == 1
    assert past.without_message() == {*past.all[0].rows}
