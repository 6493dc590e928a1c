"""Which transactions of a landing were finished before: asked of the table, when the buffer may have forgotten one."""

from pathlib import Path

import pyarrow as pa
import pytest

from txloom.storage import system_tables
from txloom.storage.buffer.finished_transactions import finished_before
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.transactions import memory
from txloom.transactions.hashes import hash64


@pytest.fixture
def paths(tmp_path: Path) -> TablePaths:
    """Return a pipeline that released x1 to x9 and gave x4 up; their csns are ten times their numbers."""
    made = TablePaths(str(tmp_path), "shop")
    rows = [
        {"transaction_id": f"x{n}", "csn": 10 * n, "status": "dead" if n == 4 else "released"} for n in range(1, 10)
    ]
    small_tables.append(made.table("transactions"), rows, system_tables.TRANSACTIONS)
    return made


def heard(paths: TablePaths, *events: tuple[str, int | None]) -> list[int]:
    rows = [
        {"kind": "row", "table": "t", "transaction_id": name, "tx": hash64(name), "csn": csn} for name, csn in events
    ]
    return sorted(finished_before(paths, pa.Table.from_pylist(rows, system_tables.CHANGE_EVENTS))["tx"].tolist())


def hashes(*names: str) -> list[int]:
    return sorted(map(hash64, names))


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "REMEMBERED", 3)


@pytest.mark.usefixtures("forgetful")
def test_what_was_released_and_what_was_given_up_is_known_and_what_is_new_is_not(paths: TablePaths) -> None:
    assert heard(paths, ("x4", 40), ("x4", 40), ("x9", 90), ("new", 45), ("x99", 990)) == hashes("x4", "x9")


@pytest.mark.usefixtures("forgetful")
def test_an_id_that_comes_back_with_another_csn_is_a_new_transaction(paths: TablePaths) -> None:
    assert heard(paths, ("x4", 900), ("x1", 10)) == hashes("x1")
    assert heard(paths, ("x4", 50), ("new", 40)) == [], "both are new: 40 was x4, and 50 was x5"


@pytest.mark.usefixtures("forgetful")
def test_a_transaction_of_which_no_event_tells_a_csn_is_known_by_its_id(paths: TablePaths) -> None:
    assert heard(paths, ("x4", None), ("new", None), ("x7", None), ("x7", 70), ("x8", None)) == hashes("x4", "x7", "x8")
    assert heard(paths, ("x7", None), ("x7", 900)) == [], "its metadata says that it is another one"


@pytest.mark.usefixtures("forgetful")
def test_rows_with_a_gtid_lie_before_the_csn_of_their_transaction_and_are_known_by_its_id(tmp_path: Path) -> None:
    made = TablePaths(str(tmp_path), "mysql")
    ids = [f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{n}" for n in range(1, 10)]
    rows = [{"transaction_id": name, "csn": 10 * n, "status": "released"} for n, name in enumerate(ids, 1)]
    small_tables.append(made.table("transactions"), rows, system_tables.TRANSACTIONS)
    assert heard(made, (ids[3], 37), (ids[3], 38), (ids[8], 90)) == hashes(ids[3], ids[8])
    assert heard(made, ("3e11fa47-71ca-11e1-9e33-c80aa9429562:77", 37), ("x4", 37), ("0-1-4", 12)) == []
    assert heard(made, (ids[5], 55), ("x4", 40)) == hashes(ids[5])


def test_nothing_is_asked_while_nothing_can_have_been_forgotten(paths: TablePaths) -> None:
    assert heard(paths, ("x4", 40)) == []


@pytest.mark.usefixtures("forgetful")
def test_a_pipeline_that_finished_nothing_knows_nothing(tmp_path: Path) -> None:
    assert heard(TablePaths(str(tmp_path), "new"), ("x4", 40)) == []
    assert heard(TablePaths(str(tmp_path), "new")) == []


@pytest.mark.usefixtures("forgetful")
def test_what_was_finished_is_told_with_the_csn_of_that_time(paths: TablePaths) -> None:
    rows = [{"kind": "row", "table": "t", "transaction_id": "x7", "tx": hash64("x7"), "csn": None}]
    finished = finished_before(paths, pa.Table.from_pylist(rows, system_tables.CHANGE_EVENTS))
    assert finished.tolist() == [(hash64("x7"), 70)], "another one of that id is told apart by it"


@pytest.mark.usefixtures("forgetful")
def test_what_was_given_up_before_its_csn_was_reported_is_known_by_its_id_until_decided_again(
    paths: TablePaths,
) -> None:
    dead = [{"transaction_id": name, "status": "dead", "release": 1} for name in ("open", "closed")]
    again = {"transaction_id": "closed", "csn": 120, "status": "released", "release": 2}
    for row in (*dead, again):
        small_tables.append(paths.table("transactions"), [row], system_tables.TRANSACTIONS)
    letters = [{"transaction_id": row["transaction_id"], "kind": "row"} for row in dead]
    small_tables.append(paths.dead_letters, letters, system_tables.DEAD_LETTERS)
    assert heard(paths, ("open", 110), ("closed", 900), ("new", 130)) == hashes("open")


@pytest.mark.usefixtures("forgetful")
def test_a_row_is_of_the_first_transaction_of_its_id_that_ends_behind_it(paths: TablePaths) -> None:
    again = {"transaction_id": "x7", "csn": 700, "status": "released"}
    small_tables.append(paths.table("transactions"), [again], system_tables.TRANSACTIONS)

    def known(*lies_at: int) -> list[tuple[int, int]]:
        about = {"kind": "row", "table": "t", "transaction_id": "x7", "tx": hash64("x7")}
        rows = [about | {"identity": f"{at}:t:c:1"} for at in lies_at]
        finished: list[tuple[int, int]] = finished_before(
            paths, pa.Table.from_pylist(rows, system_tables.CHANGE_EVENTS)
        ).tolist()
        return finished

    assert known(701) == []
    assert known(71) == known(71, 900) == known(69) == [(hash64("x7"), 700)]
