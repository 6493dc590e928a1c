"""A landing plans the same whether it knows all files that were ever read, or those that it looks up."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from slot import Slot, text, transaction
from txloom.storage.sources import file_plan, file_positions
from txloom.storage.sources.file_plan import KnownFiles
from txloom.storage.sources.files import list_files

NAMES = ("live.jsonl", "live.jsonl.1", "live.jsonl.2", "part-8", "part-9", "part-10", "other-2026")
CONTENTS = tuple(text(transaction(xid, xid, xid + 1)) for xid in (10, 20, 30))
FORMATS = ("wal2json", "goldengate", "change_sets")
NAME = st.sampled_from(NAMES)
STEPS = (
    st.tuples(st.just("write"), NAME, st.sampled_from(CONTENTS))
    | st.tuples(st.just("append"), NAME, st.sampled_from(CONTENTS))
    | st.tuples(st.sampled_from(["rename", "copy"]), NAME, NAME)
    | st.tuples(st.just("remove"), NAME, NAME)
)
"""What happens to a file; other names and contents do not matter to every step."""


def change(slot: Slot, step: str, name: str, other: str) -> None:
    """Do to the folder what a producer, an archive or an operator may do."""
    path, target = slot.topic / name, slot.topic / other
    if step in ("write", "append"):
        slot.put(name, other, append=step == "append")
    elif path.exists() and step == "remove":
        path.unlink()
    elif path.exists() and path != target:
        (shutil.move if step == "rename" else shutil.copy2)(path, target)


@pytest.mark.long
@pytest.mark.parametrize("content", FORMATS)
@settings(deadline=None, max_examples=examples(60))
@given(rounds=st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_plan_is_that_of_knowing_every_file(
    tmp_path_factory: Any, content: str, rounds: list[list[tuple[str, str, str]]]
) -> None:
    slot = Slot(tmp_path_factory.mktemp("slot"))
    root = str(slot.topic.parent)
    for steps in rounds:
        for step in steps:
            change(slot, *step)
        there = list_files(root)
        planned = partial(
            file_plan.plan, root, there, is_whole=lambda *_: True, format=content, is_in_commit_order=lambda _: True
        )
        every = KnownFiles(file_positions.newest(slot.paths, file_positions.every_file(slot.paths)))
        some = KnownFiles.of(slot.paths, root, there, (), is_ordered=content == "wal2json")
        assert planned(some) == planned(every)
        slot.land()


def test_rotated_files_are_in_order_though_the_file_whose_name_they_bear_is_gone(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    slot.put("live.jsonl", CONTENTS[0])
    slot.land()
    (slot.topic / "live.jsonl").unlink()
    for name, content in (("live.jsonl.1", CONTENTS[2]), ("live.jsonl.2", CONTENTS[1])):
        slot.put(name, content)
    root = str(slot.topic.parent)
    there = list_files(root)
    known = KnownFiles.of(slot.paths, root, there, (), is_ordered=False)
    tasks = file_plan.plan(root, there, known, lambda *_: True, "goldengate", lambda _: True).tasks
    assert [task.file for task in tasks] == ["slot/live.jsonl.2", "slot/live.jsonl.1"]


def test_files_that_were_read_long_ago_are_not_held(tmp_path: Path) -> None:
    slot = Slot(tmp_path)
    for number in range(1, 6):
        slot.put(f"part-{number}", text(transaction(number, number)))
        slot.land()
    for number in range(1, 5):
        (slot.topic / f"part-{number}").unlink()
    there = list_files(str(slot.topic.parent))
    known = KnownFiles.of(slot.paths, str(slot.topic.parent), there, (), is_ordered=True)
    assert [name for _, name in known.positions] == ["slot/part-5"]


@pytest.mark.parametrize("archived", ["renamed", "read"])
def test_a_file_goes_on_behind_one_that_is_gone(tmp_path: Path, archived: str) -> None:
    slot, whole = Slot(tmp_path), transaction(20, 3, 4, 5)
    first = slot.put("live-1", text(transaction(10, 1, 2) + whole[:2]))
    slot.land()
    if archived == "renamed":
        first = first.rename(first.with_name("zz-old"))
        slot.land()
    first.unlink()
    slot.put("live-1" if archived == "renamed" else "live-2", text(whole[2:]))
    slot.land()
    assert slot.whole() == {10: {1, 2}, 20: {3, 4, 5}}
