"""The files transport: what counts as a whole file, and what is never taken."""

import gzip
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from txloom.errors import SourceUnavailable
from txloom.events.malformed import Refused
from txloom.storage.sources.file_lines import Lines
from txloom.storage.sources.files import is_whole, list_files

SETTLE = timedelta(seconds=60)


def put(root: Path, name: str, content: bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def whole(root: Path, name: str, content: bytes) -> bool:
    put(root, name, content)
    (file,) = list_files(str(root))
    return is_whole(str(root), file, time.time_ns(), SETTLE)


def test_a_file_is_whole_once_it_ends_in_a_newline(tmp_path: Path) -> None:
    assert whole(tmp_path, "t/a.jsonl", b"{}\n")
    assert not whole(tmp_path, "t/a.jsonl", b"{}\n{")
    assert not whole(tmp_path, "t/a.jsonl", b"")


def test_a_file_without_a_last_newline_is_whole_once_it_settled(tmp_path: Path) -> None:
    put(tmp_path, "t/a.jsonl", b"{}")
    os.utime(tmp_path / "t/a.jsonl", (time.time() - 61, time.time() - 61))
    (file,) = list_files(str(tmp_path))
    assert is_whole(str(tmp_path), file, time.time_ns(), SETTLE)


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
