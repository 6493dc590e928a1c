"""The files transport: what counts as a whole file, and what is never taken."""

import gzip
import os
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.errors import SourceUnavailable
from txloom.events.malformed import Refused
from txloom.storage.sources import file_lines
from txloom.storage.sources.file_lines import Lines, last_line
from txloom.storage.sources.files import Inbox, Unchanged, list_files
from txloom.storage.stores.places import place

SETTLE, PATIENCE = 60, 1800
NOW = 1_800_000_000


def put(root: Path, name: str, content: bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def whole(root: Path, name: str, content: bytes, age: int = 0, **about: Any) -> bool:
    """Write a file and return whether it is finished; age: the seconds since its last change."""
    put(root, name, content)
    os.utime(root / name, (NOW - age, NOW - age))
    (file,) = [each for each in list_files(str(root)) if each.file == name]
    unchanged = Unchanged(NOW * 10**9, timedelta(seconds=SETTLE), timedelta(seconds=PATIENCE))
    return Inbox(str(root), **about).is_finished(unchanged, file, may_end=True)


def test_a_file_is_whole_once_it_ends_in_a_newline(tmp_path: Path) -> None:
    assert whole(tmp_path, "t/a.jsonl", b"{}\n")
    assert not whole(tmp_path, "t/a.jsonl", b"{}\n{")
    assert not whole(tmp_path, "t/a.jsonl", b"")


@pytest.mark.parametrize("content", [b"{}", b'{}\n{"a": 1}', b"{}\n ", b""])
def test_a_file_without_a_last_newline_is_whole_once_it_settled(tmp_path: Path, content: bytes) -> None:
    assert [whole(tmp_path, "t/a.jsonl", content, age) for age in (SETTLE - 1, SETTLE)] == [False, True]


@pytest.mark.parametrize("content", [b'{"a"', b'{}\n{"a": [1', b'{"a": "\xc3', b"{}\n" + b'{"a": 1}' * 2])
def test_a_file_whose_last_line_was_cut_off_is_whole_once_patience_is_over(tmp_path: Path, content: bytes) -> None:
    ages = (SETTLE - 1, SETTLE, PATIENCE - 1, PATIENCE)
    assert [whole(tmp_path, "t/a.jsonl", content, age) for age in ages] == [False, False, False, True]


def test_a_last_line_that_is_not_judged_does_not_wait_for_patience(tmp_path: Path) -> None:
    assert whole(tmp_path, "t/a.jsonl", b'{"a": "' + b"x" * 200_000, SETTLE, limit=1000), "it is longer than the limit"
    assert whole(tmp_path, "t/a.csv", b"id,name\n1,a", SETTLE, format="change_sets")
    assert whole(tmp_path, "t/a.jsonl.gz", gzip.compress(b"{}\n")[:-5], SETTLE), "its landing reports the error"


@given(st.lists(st.sampled_from([b"", b"a", b"bc" * 40]), min_size=1), st.integers(1, 50), st.integers(0, 100))
def test_the_last_line_is_what_follows_the_last_newline(lines: list[bytes], end: int, limit: int) -> None:
    content = b"\n".join(lines)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as small:
        small.setattr(file_lines, "END", end)
        (Path(folder) / "a").write_bytes(content + b"later")
        line = last_line(place(folder, "a"), len(content), limit)
    assert line == lines[-1] or (line is None and len(lines[-1]) > limit)


def test_a_compressed_file_is_whole_once_its_stream_ends(tmp_path: Path) -> None:
    packed = gzip.compress(b"{}\n" * 1000)
    assert whole(tmp_path, "t/a.jsonl.gz", packed)
    assert not whole(tmp_path, "t/a.jsonl.gz", packed[:-5])


@pytest.mark.parametrize("name", ["t/.a.jsonl", "t/_a.jsonl", "t/a.jsonl.tmp", "t/a.part", ".t/a.jsonl", "a.jsonl"])
def test_temporary_names_and_files_outside_topics_are_never_listed(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, b"{}\n")
    assert list_files(str(tmp_path)) == []


def test_a_link_that_leaves_the_source_is_not_followed(tmp_path: Path) -> None:
    put(tmp_path, "outside.jsonl", b"{}\n")
    (tmp_path / "in" / "t").mkdir(parents=True)
    (tmp_path / "in" / "t" / "a.jsonl").symlink_to(tmp_path / "outside.jsonl")
    assert list_files(str(tmp_path / "in")) == []


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="gone: the source's folder does not exist"):
        list_files(str(tmp_path / "gone"))


@pytest.mark.parametrize("name", ["t/a.jsonl", "t/a.jsonl.gz"])
def test_lines_go_on_across_blocks_and_the_last_needs_no_newline(tmp_path: Path, name: str) -> None:
    content = b"".join(b"%d" % n + b"x" * 1000 + b"\n" for n in range(10_000)) + b"last"
    put(tmp_path, name, gzip.compress(content) if name.endswith("gz") else content)
    lines = Lines(tmp_path / name, (tmp_path / name).stat().st_size, 0, 1 << 20)
    read_lines = [line for block in lines.blocks() for line in block]
    assert len(read_lines) == 10_000 and read_lines[4999].startswith(b"4999x")
    assert (lines.tail, lines.tail_bytes, lines.until) == (b"last", 4, len(content) - 4)


def test_a_long_line_is_read_in_linear_time_and_only_its_beginning_is_kept(tmp_path: Path) -> None:
    """Half a gigabyte that is joined to what came before at every block would take a minute, and all of it memory."""
    import resource

    put(tmp_path, "t/a.jsonl.gz", gzip.compress(b"{}\n" + b"x" * (512 << 20) + b"\n{}\n", compresslevel=1))
    path = tmp_path / "t" / "a.jsonl.gz"
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    first, large, last = [line for block in Lines(path, path.stat().st_size, 0, 1 << 20).blocks() for line in block]
    assert (first, last) == (b"{}", b"{}")
    assert isinstance(large, Refused)
    assert (large.cause, large.detail) == (
        "message too large",
        f"the message has {512 << 20} bytes; its first 65536 are kept",
    )
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10, "kilobytes"
    assert time.process_time() - begun < 20


def test_what_is_read_of_a_file_ends_where_it_ended_when_it_was_planned(tmp_path: Path) -> None:
    put(tmp_path, "t/a.jsonl", b"1\n2\n3\n4")
    lines = Lines(tmp_path / "t" / "a.jsonl", 5, 2, 100)
    assert (list(lines.blocks()), lines.tail, lines.until) == ([[b"2"]], b"3", 4)
