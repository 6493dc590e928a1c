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
from txloom.storage.delta import small_tables
from txloom.storage.maintenance.forgotten_messages import Forgotten, forget_messages
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import CHANGE_EVENTS, DEAD_LETTERS, TRANSACTIONS

START = datetime(2026, 1, 1, tzinfo=UTC)
IDS = ("a", "b", "c", "d")
STEPS = st.tuples(st.sampled_from(["land", "land", "release", "give up"]), st.sampled_from([*IDS, None]))
"""What happens to a transaction; rows of None are unwatched."""


def at(landing: int) -> datetime:
    """Return when a landing was."""
    return START + timedelta(hours=landing)


@dataclass
class Past:
    """Rows, transactions and dead letters as the buffer would have written them."""

    paths: TablePaths
    landing: int = 0
    release: int = 0
    rows: dict[tuple[int, str | None], bool] = field(default_factory=dict)
    """Landing and transaction of each row, and whether it is a dead letter."""
    released: dict[str, int] = field(default_factory=dict)

    def take(self, what: str, identity: str | None) -> None:
        """Let something happen."""
        if what == "land":
            self._land(identity)
        elif identity is not None and (mine := [row for row in self.rows if row[1] == identity]):
            self._decide(what, identity, mine)

    def _land(self, identity: str | None) -> None:
        self.landing += 1
        row = {"kind": "row", "landing": self.landing, "row": 1, "value": "{}", "landed_at": at(self.landing)}
        table = None if identity is None else "orders"
        whose = {"transaction_id": identity or "nobody", "table": table}
        small_tables.append(self.paths.change_events, [row | whose], CHANGE_EVENTS)
        is_late = identity in self.released
        self.rows[self.landing, identity] = is_late
        if is_late:
            self._dead([(self.landing, identity)])

    def _decide(self, what: str, identity: str, mine: list[tuple[int, str | None]]) -> None:
        if identity in self.released:
            return
        self.release += 1
        held = [landing for landing, _ in mine if not self.rows[landing, identity]]
        about = {
            "transaction_id": identity,
            "release": self.release,
            "first_landed_at": at(min(held, default=self.landing)),
        }
        status = "released" if what == "release" else "dead"
        small_tables.append(self.paths.table(names.TRANSACTIONS), [about | {"status": status}], TRANSACTIONS)
        if what == "release":
            self.released[identity] = self.release
        else:
            self._dead([(landing, identity) for landing in held])

    def _dead(self, rows: list[tuple[int, str | None]]) -> None:
        letters = [{"landing": landing, "row": 1, "transaction_id": identity} for landing, identity in rows]
        if letters:
            small_tables.append(self.paths.dead_letters, letters, DEAD_LETTERS)
        self.rows.update(dict.fromkeys(rows, True))

    def forgotten(self, landing: int) -> set[int]:
        """Return the landings whose row needs no message any more."""
        return {at for at, identity in self.rows if at <= landing and (identity is None or identity in self.released)}

    def without_message(self) -> set[int]:
        """Return the landings whose row has no message."""
        rows = small_tables.query(self.paths.change_events, "select landing from t where value is null")
        return {row["landing"] for row in rows}


def empty(folder: Path) -> TablePaths:
    """Return the paths of tables without rows."""
    paths = TablePaths(str(folder), "p")
    for path, schema in (
        (paths.change_events, CHANGE_EVENTS),
        (paths.table(names.TRANSACTIONS), TRANSACTIONS),
        (paths.dead_letters, DEAD_LETTERS),
    ):
        small_tables.ensure(path, schema)
    return paths


@pytest.mark.long
@settings(deadline=None, max_examples=examples(12))
@given(rounds=st.lists(st.tuples(st.lists(STEPS, min_size=1, max_size=8), st.integers(0, 6)), min_size=2, max_size=4))
def test_every_run_removes_what_a_look_at_everything_would(
    spark: Any, tmp_path_factory: Any, rounds: list[tuple[list[tuple[str, str | None]], int]]
) -> None:
    paths = empty(tmp_path_factory.mktemp("forgotten"))
    past, since, expected = Past(paths), Forgotten(), set[int]()
    for steps, young in rounds:
        for step in steps:
            past.take(*step)
        landing = max(past.landing - young, since.landing)
        expected |= past.forgotten(landing)
        before = past.without_message()
        count = forget_messages(lambda: spark, paths, landing, at(landing) + timedelta(minutes=1), since)
        assert past.without_message() == expected
        assert count == len(expected - before)
        since = Forgotten(landing, past.release)
        assert forget_messages(no_session, paths, landing, at(landing), since) == 0, "no JVM for what is done"


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
