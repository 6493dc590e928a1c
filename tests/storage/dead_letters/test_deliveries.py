"""A transaction that a stream holds several times, cut off once and whole once, is redriven as it came whole."""

from pathlib import Path

import pytest

from called import step_of
from slot import Slot, text, transaction
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.redrive import redrive
from txloom.storage.dead_letters import deliveries, open_letters
from txloom.storage.delta import small_tables
from txloom.storage.landing import landing_plan
from txloom.storage.system_tables import TRANSACTIONS

WHOLE = transaction(20, 3, 4, 5)
CUT = [*WHOLE[:2], WHOLE[2][:40], *WHOLE[3:]]


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)


def give_up(slot: Slot, xid: int) -> None:
    """Say that the buffer gave a transaction up."""
    transaction = {"transaction_id": f"{xid}:{xid * 0x1000}", "xid": str(xid), "csn": xid * 0x1000}
    path = slot.paths.table("transactions")
    small_tables.ensure(path, TRANSACTIONS)
    small_tables.append(
        path, [{**transaction, "status": "dead", "cause": "metadata never came", "release": 1}], TRANSACTIONS
    )


def again(slot: Slot) -> list[tuple[str, int | None]]:
    """Redrive everything and return what was landed of it: kind and position."""
    done = redrive(step_of(slot.pipeline, slot.warehouse, "again"), Selection(everything=True))
    rows = slot.query(
        "change_events", f'select kind, pos from t where landing = {done.get("landing", 0)} order by "row"'
    )
    return [(row["kind"], row["pos"]) for row in rows if row["kind"] not in ("clock", "numbers")]


@pytest.mark.parametrize("cut_first", [True, False])
def test_of_two_deliveries_the_whole_one_is_redriven_alone(slot: Slot, cut_first: bool) -> None:
    for name, lines in zip("ab", [CUT, WHOLE] if cut_first else [WHOLE, CUT], strict=True):
        slot.put(name, text(lines))
    slot.land()
    give_up(slot, 20)
    assert again(slot) == [("marker", None), ("row", 1), ("row", 2), ("row", 3), ("metadata", None)]


def test_a_transaction_that_was_never_whole_is_redriven_once_with_its_poison(slot: Slot) -> None:
    slot.put("a", text(CUT))
    slot.land()
    give_up(slot, 20)
    assert again(slot) == [("marker", None), ("row", 1), ("poison", 2), ("row", 3), ("poison", None)]


def test_poison_of_a_transaction_that_still_waits_is_left_with_it(slot: Slot) -> None:
    slot.put("a", text(CUT))
    slot.land()
    assert again(slot) == []


def test_a_line_that_is_complete_now_is_no_dead_letter_any_more_and_stands_for_what_it_was(slot: Slot) -> None:
    content = text(WHOLE)
    at = content.index(WHOLE[2]) + 40
    slot.put("a", content[:at])
    slot.land()
    assert open_letters.open_dead_letters(slot.paths, "line").to_pylist() == [{"line": 3}]
    slot.put("a", content[at:], append=True)
    slot.land()
    assert open_letters.open_dead_letters(slot.paths, "line").num_rows == 0
    events = deliveries.of_transactions(slot.paths, [f"20:{20 * 0x1000}"])
    assert events.column("value").to_pylist() == WHOLE


def test_poison_of_a_file_that_only_has_other_content_now_stays_a_dead_letter(slot: Slot) -> None:
    slot.put("a", "{broken\n")
    slot.land()
    slot.put("a", text(transaction(30, 1)))
    slot.land()
    assert open_letters.open_dead_letters(slot.paths, "line").to_pylist() == [{"line": 1}]
    assert landing_plan.newest(slot.paths) == 2
