"""Open dead letters and transactions that were given up: few rows are read of long tables, and none is missed."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawn import examples
from txloom.config import names
from txloom.storage.dead_letters import dismissals, known_open, open_letters
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import (
    CHANGE_EVENTS,
    CUTS,
    DEAD_LETTERS,
    DISMISSALS,
    LANDED_FILES,
    OPEN_DEAD_LETTERS,
    PENDING_TRANSACTIONS,
    TRANSACTIONS,
)
from txloom.transactions.causes import COMPLETE
from txloom.transactions.events import NOWHERE

GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7"
ROWS = st.fixed_dictionaries(
    {
        "transaction_id": st.sampled_from(["a", "b", GTID]),
        "csn": st.sampled_from([None, NOWHERE, 1, 4, 6]),
        "status": st.sampled_from(["released", "dead", "dead"]),
        "cause": st.sampled_from(["short", COMPLETE]),
    }
).filter(lambda row: row["csn"] != NOWHERE if row["status"] == "dead" else row["csn"] is not None)
"""Rows of `transactions`; what was released has a csn, or is NOWHERE while no row of it was watched."""


DEAD = {"transaction_id": "a", "csn": 1, "status": "dead", "cause": "short"}


def everything(paths: TablePaths, where: str, dead: str, known: Any) -> list[dict[str, Any]]:
    """Return what `given_up` chooses from, of one query on the whole table."""
    some = f"select transaction_id from t where {dead}"
    sql = (
        f"select transaction_id, xid, csn, status, cause, {dead} as dead from t"
        f" where ({where}) and transaction_id in ({some}) order by release desc, {open_letters.LAST}"
    )
    return small_tables.query(paths.table(names.TRANSACTIONS), sql)


def remember(paths: TablePaths, release: int, landing: int, shown: int | None = None) -> None:
    """Write down what is open, after the buffer's batch of a release, which took everything up to a landing.

    shown: the csn through which the newest cut shows what is released; None: there is no cut.
    """
    if shown is not None:
        cut = {"cut_id": release, "valid_through": shown, "release": release, "gaps": [], "amends": []}
        small_tables.append(paths.table(names.CUTS), [cut], CUTS)
    small_tables.ensure(paths.dead_letters, DEAD_LETTERS)
    small_tables.ensure(paths.table(names.TRANSACTIONS), TRANSACTIONS)
    pending = paths.table(names.PENDING_TRANSACTIONS)
    small_tables.replace(pending, [], PENDING_TRANSACTIONS, {"release": release, "landing": landing})
    open_letters.remember(paths)


@settings(deadline=None, max_examples=examples(40))
@given(
    st.lists(st.tuples(st.lists(ROWS, min_size=1, max_size=4), st.booleans()), max_size=4),
    st.sampled_from(["true", "csn is null or csn <= 3"]),
    st.sampled_from([open_letters.DEAD, f"cause = '{COMPLETE}'"]),
    st.tuples(st.sampled_from([0, open_letters.FEW]), st.sampled_from([0, 2, known_open.MOST])),
    st.tuples(st.none() | st.integers(0, 16), st.sampled_from([None, 3])),
)
@example(
    [([DEAD], False), ([DEAD | {"status": "released"}], True)],
    "true",
    open_letters.DEAD,
    (0, known_open.MOST),
    (1, None),
)
@example(
    [([DEAD | {"csn": None}], True), ([DEAD | {"csn": NOWHERE, "status": "released"}], True)],
    "true",
    open_letters.DEAD,
    (0, known_open.MOST),
    (None, 3),
)
def test_the_same_transactions_are_given_up_as_by_reading_everything(
    tmp_path_factory: Any,
    commits: list[tuple[list[dict[str, Any]], bool]],
    where: str,
    dead: str,
    few_and_most: tuple[int, int],
    until_and_shown: tuple[int | None, int | None],
) -> None:
    """What maintenance wrote down between commits, or could not for want of room, decides nothing."""
    until, shown = until_and_shown
    folder: Path = tmp_path_factory.mktemp("given_up")
    paths = TablePaths(str(folder), "p")
    small_tables.ensure(paths.table(names.TRANSACTIONS), TRANSACTIONS)
    release = 0
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(known_open, "MOST", few_and_most[1])
        for rows, is_noted in commits:
            named = []
            for row in rows:
                release += 1
                named.append({**row, "xid": f"x{row['transaction_id']}", "release": release})
            small_tables.append(paths.table(names.TRANSACTIONS), named, TRANSACTIONS)
            if is_noted:
                remember(paths, release, 0, shown)
        with pytest.MonkeyPatch.context() as whole:
            whole.setattr(open_letters, "_rows_of_dead", everything)
            expected = open_letters.given_up(paths, where, dead, until)
        limits.setattr(open_letters, "FEW", few_and_most[0])
        actual = open_letters.given_up(paths, where, dead, until)
    assert actual == expected


NOW = DEAD | {"cause": COMPLETE}
WITHOUT_ROWS = DEAD | {"csn": NOWHERE, "status": "released", "cause": None}


@pytest.mark.parametrize(
    "past",
    [
        [DEAD, WITHOUT_ROWS],
        [DEAD, NOW | {"csn": None}, WITHOUT_ROWS],
        [NOW | {"csn": None}, WITHOUT_ROWS],
        [DEAD, WITHOUT_ROWS, NOW],
        [WITHOUT_ROWS, NOW | {"csn": None}, NOW],
    ],
)
def test_a_transaction_that_was_released_without_a_watched_row_is_not_given_up(
    tmp_path: Path, past: list[dict[str, Any]]
) -> None:
    paths = TablePaths(str(tmp_path), "p")
    rows = [{**row, "xid": "x", "release": number} for number, row in enumerate(past, 1)]
    small_tables.append(paths.table(names.TRANSACTIONS), rows, TRANSACTIONS)
    assert open_letters.given_up(paths) == []
    assert open_letters.complete_now(paths) == []


PLACE = {"file": "f", "line": 1}
FIRST = {"transaction_id": "a", "csn": 1}
PLACES = st.fixed_dictionaries({"file": st.just("f"), "line": st.integers(1, 2)})
IDS = st.fixed_dictionaries({"transaction_id": st.just("a"), "csn": st.sampled_from([1, 2, None])})
RELEASED_IDS = IDS.filter(lambda row: row["csn"] is not None)
LANDED = st.fixed_dictionaries({"ago": st.sampled_from([None, 0, 1, 3])})
"""How many landings before its release a transaction's last event was landed; None: an earlier version released it."""
EVENTS = st.one_of(
    st.tuples(st.just("poison"), PLACES),
    st.tuples(st.just("dead"), st.builds(lambda one, other: one | other, PLACES, IDS)),
    st.tuples(st.just("released"), st.builds(lambda one, other: one | other, RELEASED_IDS, LANDED)),
    st.tuples(st.just("redrive"), PLACES),
    st.tuples(st.sampled_from(["dismiss", "reopen", "remember", "remember"]), st.just({})),
)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(EVENTS, max_size=12), st.sampled_from([known_open.MOST, 1]), st.integers(0, 4))
@example([("poison", PLACE), ("dismiss", {}), ("remember", {}), ("reopen", {})], known_open.MOST, 0)
@example([("dismiss", {}), ("redrive", PLACE), ("remember", {}), ("dead", PLACE)], known_open.MOST, 3)
@example([("released", FIRST), ("dead", PLACE | FIRST), ("remember", {}), ("released", FIRST)], known_open.MOST, 0)
@example([("released", FIRST), ("remember", {}), ("dead", PLACE | FIRST)], known_open.MOST, 0)
def test_the_same_dead_letters_are_open_as_by_comparing_everything(
    tmp_path_factory: Any, events: list[tuple[str, dict[str, Any]]], most: int, late: int
) -> None:
    """Whatever was dead, released, late, landed again, dismissed and reopened, and whenever maintenance wrote it down.

    late: a dead letter was landed so many landings before it was given up.
    """
    paths = TablePaths(str(tmp_path_factory.mktemp("open")), "p")
    for path, schema in ((paths.dead_letters, DEAD_LETTERS), (paths.change_events, CHANGE_EVENTS)):
        small_tables.ensure(path, schema)
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(known_open, "MOST", most)
        for number, (what, row) in enumerate(events, 1):
            happen(paths, number, what, row, late)
            columns, order = 'landing, "row", transaction_id, csn, kind', "order by 1, 2"
            expected = open_letters._open(paths, columns, order, None, None).to_pylist()
            assert open_letters.open_dead_letters(paths, columns, order).to_pylist() == expected, f"after {number}"


def happen(paths: TablePaths, number: int, what: str, row: dict[str, Any], late: int) -> None:
    """Let something happen in a landing and the release that takes it."""
    event = {"topic": "t", "landing": number, "row": 0, "cause": "c", **row}
    if what == "poison":
        small_tables.append(paths.dead_letters, [event | {"kind": "poison"}], DEAD_LETTERS)
    elif what == "dead":
        dead = event | {"kind": "row", "release": number, "landing": max(number - late, 1), "row": number}
        small_tables.append(paths.dead_letters, [dead], DEAD_LETTERS)
    elif what == "released":
        about = {name: row[name] for name in ("transaction_id", "csn")} | {"status": "released", "release": number}
        about["landing"] = None if (ago := row.get("ago", 0)) is None else max(number - ago, 1)
        small_tables.append(paths.table(names.TRANSACTIONS), [about], TRANSACTIONS)
    elif what == "redrive":
        again = {"landing": number, "topic": open_letters.REDRIVE}
        small_tables.append(paths.landed_files, [again], LANDED_FILES)
        small_tables.append(paths.change_events, [event | {"kind": "row"}], CHANGE_EVENTS)
    elif what == "dismiss":
        dismissals.dismiss(paths, "true", None, dismissals.Dismissal("ada", "known", "r", datetime.now(UTC)))
    elif what == "reopen":
        dismissals.reopen(paths, "true", "r")
    else:
        remember(paths, number, number)


def test_what_is_known_says_nothing_of_tables_that_are_older_than_it(tmp_path: Path) -> None:
    """A letter's transaction was released, then its table is an older copy, and goes on; or it is restored by Delta."""
    for number, way in enumerate(("copied", "restored")):
        paths = TablePaths(str(tmp_path), f"p{number}")
        table = paths.table(names.TRANSACTIONS)
        happen(paths, 1, "dead", PLACE | {"transaction_id": "a", "csn": 1}, 0)
        happen(paths, 1, "released", {"transaction_id": "b", "csn": 1}, 0)
        if way == "copied":
            shutil.copytree(table, f"{table}.copy")
        version = DeltaTable(table).version()
        happen(paths, 2, "released", {"transaction_id": "a", "csn": 1}, 0)
        remember(paths, 2, 2)
        assert not open_letters.open_dead_letters(paths, "landing").num_rows
        if way == "copied":
            shutil.rmtree(table)
            shutil.move(f"{table}.copy", table)
        else:
            DeltaTable(table).restore(version)
            remember(paths, 3, 3)
        for later in (4, 5):
            assert open_letters.open_dead_letters(paths, "landing").num_rows == 1, f"{way}, {later}"
            happen(paths, later, "released", {"transaction_id": "b", "csn": later}, 0)


@pytest.mark.parametrize("ago", [0, None], ids=["its landing is known", "an earlier version released it"])
def test_a_row_that_came_after_its_transaction_was_released_is_open_until_the_next_release(
    tmp_path: Path, ago: int | None
) -> None:
    paths = TablePaths(str(tmp_path), "p")
    happen(paths, 1, "dead", PLACE | FIRST, 0)
    happen(paths, 2, "released", FIRST | {"ago": ago}, 0)
    happen(paths, 3, "dead", PLACE | FIRST, 0)
    for later in (4, 5):
        assert open_letters.open_dead_letters(paths, "landing").to_pylist() == [{"landing": 3}]
        remember(paths, later, later)
    happen(paths, 6, "released", FIRST | {"ago": ago}, 0)
    assert not open_letters.open_dead_letters(paths, "landing").num_rows


def test_a_row_is_late_within_the_batch_that_released_its_transaction(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path), "p")
    happen(paths, 2, "released", FIRST | {"ago": 1}, 0)
    happen(paths, 2, "dead", PLACE | FIRST, 0)
    assert open_letters.open_dead_letters(paths, "landing").num_rows == 1


def test_dead_letters_are_listed_of_tables_that_an_earlier_version_wrote(tmp_path: Path) -> None:
    """Releases without their landing, and what was known to be open by an earlier rule."""
    paths = TablePaths(str(tmp_path), "p")
    known = paths.table(names.OPEN_DEAD_LETTERS)
    small_tables.ensure(paths.table(names.TRANSACTIONS), TRANSACTIONS.remove(TRANSACTIONS.names.index("landing")))
    happen(paths, 1, "dead", PLACE | FIRST, 0)
    row = FIRST | {"status": "released", "release": 2}
    write_deltalake(paths.table(names.TRANSACTIONS), pa.Table.from_pylist([row]), mode="append", schema_mode="merge")
    happen(paths, 3, "dead", PLACE | FIRST, 0)
    assert open_letters.open_dead_letters(paths, "landing").to_pylist() == [{"landing": 3}]
    remember(paths, 3, 3)
    (row,) = small_tables.query(known, "select * from t")
    old = OPEN_DEAD_LETTERS.remove(OPEN_DEAD_LETTERS.names.index("rule"))
    small_tables.overwrite(known, pa.Table.from_pylist([row | {"letters": []}], old), schema_mode="overwrite")
    assert open_letters.open_dead_letters(paths, "landing").to_pylist() == [{"landing": 3}]
    remember(paths, 4, 4)
    assert small_tables.query(known, "select letters from t") == [{"letters": [{"landing": 3, "row": 3}]}]


def test_what_is_known_says_nothing_where_dismissals_are_gone_in_another_way(tmp_path: Path) -> None:
    """An older version of txloom reopens them, or somebody removes their table."""
    paths = TablePaths(str(tmp_path), "p")
    small_tables.ensure(paths.change_events, CHANGE_EVENTS)
    dismissed = paths.table(names.DISMISSALS)
    for gone in (lambda: small_tables.replace(dismissed, [], DISMISSALS, {}), lambda: shutil.rmtree(dismissed)):
        happen(paths, 1, "poison", PLACE, 0)
        happen(paths, 1, "dismiss", {}, 0)
        remember(paths, 2, 2)
        assert not open_letters.open_dead_letters(paths, "landing").num_rows
        gone()
        assert open_letters.open_dead_letters(paths, "landing").num_rows
