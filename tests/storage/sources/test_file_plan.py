"""Streams in files: what grows, is touched, rotated, late or missing is right or named."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from slot import Slot, marker, row, text, transaction
from txloom.storage.sources.files import list_files


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)


FIRST, SECOND = transaction(10, 1, 2), transaction(20, 3, 4, 5)


def test_a_file_that_begins_inside_a_transaction_and_grows_goes_on_where_it_was_read_to(slot: Slot) -> None:
    slot.put("part-1", text(FIRST + SECOND[:2]))
    slot.land()
    slot.put("part-2", text(SECOND[2:3]))
    slot.land()
    slot.put("part-2", text([*SECOND[3:], *transaction(30, 6)]), append=True)
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}, 30: {6}}
    assert len(slot.events()) == len(FIRST + SECOND) + 3, "nothing was read twice"
    assert slot.land()["landed"] == 0


def test_a_file_that_is_touched_shows_nothing_new(slot: Slot) -> None:
    path = slot.put("part-1", text(FIRST + SECOND[:2]))
    slot.land()
    slot.settle(path)
    assert slot.land()["landed"] == 0
    slot.put("part-2", text(SECOND[2:]))
    slot.settle(path)
    assert slot.land()["poison"] == 0
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}


@pytest.mark.parametrize("name", ["part-9", "part-9.gz"])
def test_files_that_come_together_are_read_in_the_order_of_their_numbers(slot: Slot, name: str) -> None:
    content = text(FIRST + SECOND[:3]).encode()
    slot.put("part-10", text(SECOND[3:]))
    slot.put(name, gzip.compress(content) if name.endswith("gz") else content)
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}


def test_rows_behind_a_missing_file_are_named_and_right_once_it_comes(slot: Slot) -> None:
    slot.put("part-1", text(FIRST + SECOND[:2]))
    slot.put("part-3", text([*SECOND[3:], *transaction(30, 6)]))
    assert slot.land()["poison"] == 2
    assert slot.whole() == {10: {1, 2}, 30: {6}}, "what is torn is not whole"
    slot.put("part-2", text(SECOND[2:3]))
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}, 30: {6}}
    assert slot.land()["landed"] == 0


def test_a_line_that_was_cut_off_is_right_once_it_is_complete(slot: Slot) -> None:
    content = text(FIRST + SECOND)
    cut = content.index(SECOND[2]) + 30
    slot.put("part-1", content[:cut])
    assert slot.land()["poison"] == 1
    slot.put("part-1", content[cut:], append=True)
    assert slot.land()["poison"] == 0
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}


def test_a_last_line_without_a_newline_is_taken_once(slot: Slot) -> None:
    content = text(FIRST + SECOND)
    cut = content.index(SECOND[2]) + len(SECOND[2])
    slot.put("part-1", content[:cut])
    slot.land()
    slot.put("part-1", content[cut:], append=True)
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}
    assert len(slot.events()) == len(FIRST + SECOND)


@pytest.mark.parametrize("rotated", ["live.jsonl.1", "live-2026-01-01.jsonl", "zz-old.jsonl"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_a_file_that_is_rotated_is_read_to_its_end_and_the_new_one_goes_on_behind_it(
    slot: Slot, rotated: str, packed: bool
) -> None:
    slot.put("live.jsonl", text(FIRST + SECOND[:2]))
    slot.land()
    slot.put("live.jsonl", text(SECOND[2:3]), append=True)
    (slot.topic / "live.jsonl").rename(slot.topic / rotated)
    if packed:
        content = (slot.topic / rotated).read_bytes()
        (slot.topic / rotated).unlink()
        slot.put(f"{rotated}.gz", gzip.compress(content))
    slot.put("live.jsonl", text([*SECOND[3:], *transaction(30, 6)]))
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}, 30: {6}}
    assert len(slot.events()) == len(FIRST + SECOND) + 3, "nothing was read twice"


def test_a_file_that_is_rotated_in_one_run_is_followed_in_a_later_one(slot: Slot) -> None:
    slot.put("live.jsonl", text(FIRST + SECOND[:2]))
    slot.land()
    (slot.topic / "live.jsonl").rename(slot.topic / "a.jsonl")
    slot.land()
    slot.put("live.jsonl", text(SECOND[2:]))
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}


def test_a_copy_of_a_file_that_is_still_there_is_a_redelivery(slot: Slot) -> None:
    slot.put("part-1", text(FIRST + SECOND[:2]))
    slot.put("part-2", text(SECOND[2:]))
    slot.land()
    slot.put("copy", text(SECOND[2:]))
    assert slot.land()["landed"] == len(SECOND[2:])
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}
    assert not slot.events("'poison'")


@pytest.mark.parametrize("first", ["", "x", "\t\n\n"], ids=["blank", "no message", "blank ones"])
def test_files_that_begin_with_the_same_line_are_no_copies_of_each_other(slot: Slot, first: str) -> None:
    """A producer's blank line, or what it always writes in front, says nothing of what was open there."""
    slot.put("part-1", text(FIRST + SECOND[:2]))
    slot.put("part-2", f"{first}\n{text([*SECOND[2:], *transaction(30, 6, 7)[:2]])}")
    slot.land()
    slot.put("part-3", f"{first}\n")
    slot.land()
    slot.put("part-4", f"{first}\n{text([*transaction(30, 6, 7)[2:], *transaction(40, 8)])}")
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}, 30: {6, 7}, 40: {8}}
    assert len(slot.events("'poison'")) == (3 if first == "x" else 0)


def test_a_file_of_blank_lines_alone_is_no_copy_of_another_one(slot: Slot) -> None:
    third, fourth = transaction(30, 6, 7), transaction(40, 8, 9)
    for number, lines in enumerate([SECOND[:2], [""], [*SECOND[2:], *third[:2]], [""], [*third[2:], *fourth]], 1):
        slot.put(f"part-{number}", text(lines))
        slot.land()
    assert slot.whole() == {20: {3, 4, 5}, 30: {6, 7}, 40: {8, 9}}


def test_files_behind_one_that_is_still_written_wait(slot: Slot) -> None:
    part = slot.put("part-1", text(FIRST + SECOND[:2])[:-5])
    slot.put("part-2", text(SECOND[2:]))
    os.utime(part)
    assert slot.land()["landed"] == 0
    slot.put("part-1", text(FIRST + SECOND[:2]))
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}


def test_a_landing_that_is_repeated_reads_the_same_bytes(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    from txloom.storage.landing import landing_tables

    slot.put("part-1", text(FIRST + SECOND[:2]))
    with monkeypatch.context() as broken:
        broken.setattr(landing_tables, "append", _dies)
        with pytest.raises(KeyboardInterrupt):
            slot.land()
    slot.put("part-1", text(SECOND[2:]), append=True)
    slot.land()
    assert slot.query("change_events", "select max(line) as n from t where landing = 1") == [{"n": len(FIRST) + 2}]
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}
    assert len(slot.events()) == len(FIRST + SECOND)


def _dies(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_row_that_lies_before_its_predecessor_is_no_part_of_its_transaction(slot: Slot) -> None:
    """Names that do not tell an order: the second half stands before the first."""
    slot.put("a", text([*FIRST, SECOND[0], SECOND[2]]))
    slot.put("b", text([SECOND[1], *SECOND[3:]]))
    slot.land()
    assert slot.whole() == {10: {1, 2}}
    causes = slot.query("change_events", "select cause from t where kind = 'poison' order by line")
    assert [each["cause"] for each in causes] == ["row before its predecessor", "transaction with unreadable messages"]


def test_blank_lines_are_no_messages_and_count_as_lines(slot: Slot) -> None:
    slot.put("part-1", "\n" + FIRST[0] + "\n\n \r\n" + text(FIRST[1:]) + "\n")
    slot.land()
    assert [line for *_, line in slot.events()] == [2, 5, 6, 7]


def test_a_file_that_shrank_is_read_from_its_beginning(slot: Slot) -> None:
    slot.put("part-1", text(FIRST + SECOND))
    slot.land()
    slot.put("part-1", text(SECOND))
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}


def test_a_file_that_vanishes_while_it_is_listed_is_none(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    slot.put("part-1", text(FIRST))
    gone = slot.put("part-2", text(SECOND))
    resolve = type(gone).resolve

    def removes(path: Path, *args: Any, **named: Any) -> Path:
        resolved = resolve(path, *args, **named)
        if path.name == "part-2":
            gone.unlink(missing_ok=True)
        return resolved

    monkeypatch.setattr(type(gone), "resolve", removes)
    assert [file.file for file in list_files(str(slot.topic.parent))] == ["slot/part-1"]


def test_rows_and_markers_have_the_positions_of_their_log() -> None:
    assert marker("B", 1) < marker("C", 1) and row(1, 1) < row(1, 2)
