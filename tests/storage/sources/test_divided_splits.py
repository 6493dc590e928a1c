"""Large input splits in pieces: the same messages at the same positions, and the same place to go on from."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.storage.sources import divided_splits
from txloom.storage.sources.divided_splits import in_pieces, joined
from txloom.storage.sources.file_positions import Position
from txloom.storage.sources.files import Inbox
from txloom.storage.sources.splits import RECORD_BYTES, Range, Task

LINE = st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"\r"))
CONTENT = st.lists(LINE, max_size=30).map(b"\n".join)
LIMIT = 8


class Line(NamedTuple):
    """A message as it is landed."""

    position: int
    value: bytes | None
    landed: bool
    is_tail: bool


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process do what tasks do."""

    def work(_: Any, items: Sequence[Any], on: Callable[[Iterable[Any]], Iterable[Any]]) -> list[Any]:
        return [made for item in items for made in on([item])]

    monkeypatch.setattr(divided_splits, "in_tasks", work)


def read(inbox: Inbox, tasks: Sequence[Task]) -> tuple[list[Line], list[Position]]:
    """Return what splits or pieces hold, and how far each was read."""
    lines, reached = list[Line](), list[Position]()
    for task in tasks:
        for block in inbox.messages(task):
            values = zip(block.positions, block.values, strict=True)
            lines += [Line(position, value, block.landed, block.is_tail) for position, value in values]
            reached += [block.reached] if block.reached else []
    return lines, reached


def cut(inbox: Inbox, task: Task, most: int) -> tuple[list[Line], Position]:
    """Return what the pieces of a file hold, and how far it was read."""
    made = in_pieces(no_session, [task], inbox, most)
    lines, reached = read(inbox, made)
    (position,) = joined(no_session, made, reached, inbox)
    return lines, position


def no_session() -> Any:
    raise AssertionError("so little needs no Spark")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inbox")


@given(content=CONTENT, data=st.data())
def test_pieces_hold_what_the_file_holds_also_where_it_was_read_before(
    folder: Path, content: bytes, data: st.DataObject
) -> None:
    (folder / "t").mkdir(exist_ok=True)
    (folder / "t" / "1.jsonl").write_bytes(content)
    inbox = Inbox(str(folder), limit=LIMIT)
    most = data.draw(st.integers(1, max(1, len(content))), label="bytes of a piece")
    first = Task(1, "t", "t/1.jsonl", data.draw(st.integers(0, len(content)), label="read before"))
    lines, (position,) = read(inbox, [first])
    assert cut(inbox, first, most) == (lines, position)
    rest = replace(first, size=len(content), start=position.until, origin=position)
    more, (end,) = read(inbox, [rest])
    assert cut(inbox, rest, most) == (more, end)


def three_lines(folder: Path, topic: str) -> tuple[Path, Inbox, Task, list[Task]]:
    """Write a file of three lines; return it, its inbox, its split and the three pieces of this."""
    file = folder / topic / "1.jsonl"
    file.parent.mkdir()
    file.write_bytes(b"first\nsecond\nthird\n")
    inbox, task = Inbox(str(folder)), Task(1, topic, f"{topic}/1.jsonl", 19)
    return file, inbox, task, in_pieces(no_session, [task], inbox, 7)


def test_a_file_that_is_replaced_while_its_pieces_are_read_is_not_landed(folder: Path) -> None:
    file, inbox, _, made = three_lines(folder, "r")
    assert [each.piece and each.piece.start for each in made] == [0, 6, 13]
    _, reached = read(inbox, made[:2])
    file.write_bytes(b"FIRST\nSECOND\nTHIRD\n")
    _, last = read(inbox, made[2:])
    (position,) = joined(no_session, made, [*reached, *last], inbox)
    assert position.problem == "its content changed while it was read" and position.name == ("r", "r/1.jsonl")


def test_a_file_that_becomes_shorter_is_named_once(folder: Path) -> None:
    file, inbox, task, made = three_lines(folder, "s")
    file.write_bytes(b"first\nsecond\nth")
    assert in_pieces(no_session, [task], inbox, 7) == [task], "what cannot be counted is left whole"
    problems = [replace(task.position, problem="short") for _ in made]
    assert joined(no_session, made, problems, inbox) == [problems[0]]


@pytest.mark.parametrize("name", ["t/1.jsonl.gz", "t/1.csv"])
def test_what_cannot_be_read_from_the_middle_is_left_whole(folder: Path, name: str) -> None:
    task = Task(1, "t", name, 1 << 40)
    assert in_pieces(no_session, [task], Inbox(str(folder)), 1) == [task]
    assert in_pieces(no_session, [replace(task, file="t/1.jsonl")], Inbox(str(folder), format="change_sets"), 1) == [
        replace(task, file="t/1.jsonl")
    ]


@given(part=st.tuples(st.integers(0, 50), st.integers(0, 60)), most=st.integers(1, 20))
def test_pieces_of_a_range_hold_each_offset_once(part: tuple[int, int], most: int) -> None:
    task = Task(1, "t", "", 0, Range("t", "id", 0, part[0], part[0] + part[1]))
    made = [each.piece for each in in_pieces(no_session, [task], object(), most * RECORD_BYTES) if each.piece]
    if part[1] <= most:
        assert not made
        return
    assert [offset for each in made for offset in range(each.start, each.until)] == list(range(part[0], sum(part)))
    assert all(each.lines == each.start - part[0] and each.until - each.start <= most for each in made)
