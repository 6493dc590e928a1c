"""Files and folders of a source are read alike wherever they lie."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from txloom.storage.paths import write_whole
from txloom.storage.stores.file_systems import filesystem_of
from txloom.storage.stores.places import Place, below, lies_in, listed, place, unpacked

FILES = {"a/1.jsonl": b"one\ntwo\n", "a/b/2.jsonl.gz": gzip.compress(b"three\n"), "c.csv": b"", "_hidden/x": b"x"}
STORES = ["folder", "s3", pytest.param("hdfs", marks=pytest.mark.long)]


@pytest.fixture(params=STORES)
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URI of a folder that holds FILES, in each kind of store."""
    uri = str(tmp_path)
    if request.param == "s3":
        s3 = request.getfixturevalue("s3")
        s3.reach(monkeypatch)
        uri = f"{s3.bucket('places')}/inbox"
    elif request.param == "hdfs":
        uri = f"{request.getfixturevalue('hdfs').uri}/inbox"
    filesystem, inside = filesystem_of(uri)
    for name, content in FILES.items():
        filesystem.create_dir(f"{inside}/{name}".rpartition("/")[0], recursive=True)
        with filesystem.open_output_stream(f"{inside}/{name}", compression=None) as stream:
            stream.write(content)
    yield uri
    filesystem.delete_dir(inside)


def tree(folder: Place) -> dict[str, int]:
    """Return all files below a folder with their sizes."""
    sizes = dict[str, int]()
    for entry in listed(folder):
        if entry.is_dir():
            sizes |= {f"{entry.name}/{name}": size for name, size in tree(entry).items()}
        else:
            assert entry.is_file()
            sizes[entry.name] = entry.stat().st_size
    return sizes


def test_folders_list_what_they_hold_by_name(root: str) -> None:
    assert tree(place(root)) == {name: len(content) for name, content in FILES.items()}
    assert [entry.name for entry in listed(place(root))] == ["_hidden", "a", "c.csv"]
    assert not place(root, "none").is_dir() and not place(root, "none").is_file()


def test_files_are_read_and_unpacked(root: str) -> None:
    with unpacked(place(root, "a", "1.jsonl")) as stream:
        assert list(stream) == [b"one\n", b"two\n"]
    packed = place(root, "a/b/2.jsonl.gz")
    with unpacked(packed) as stream:
        assert stream.read() == b"three\n"
    with packed.open("rb") as raw:
        raw.seek(1)
        assert raw.read(1) == FILES["a/b/2.jsonl.gz"][1:2]
    assert (packed.name, packed.suffix, str(packed)) == ("2.jsonl.gz", ".gz", f"{root}/a/b/2.jsonl.gz")


def test_what_is_not_there_raises_what_a_path_raises(root: str) -> None:
    for attempt in (lambda: place(root, "none").open("rb"), lambda: place(root, "none").stat()):
        with pytest.raises(FileNotFoundError):
            attempt()
    with pytest.raises(FileNotFoundError):
        listed(place(root, "none"))


def test_a_file_that_changes_has_another_time_or_size(root: str) -> None:
    file, (filesystem, inside) = place(root, "c.csv"), filesystem_of(f"{root}/c.csv")
    before = file.stat()
    assert before.st_mtime_ns > 0
    with filesystem.open_output_stream(inside) as stream:
        stream.write(b"more")
    assert file.stat().st_size == before.st_size + 4


def test_a_file_is_replaced_as_a_whole(root: str) -> None:
    filesystem, inside = filesystem_of(root)
    for text in ("first", "second"):
        write_whole(filesystem, f"{inside}/a/result.json", text)
        with filesystem.open_input_stream(f"{inside}/a/result.json") as stream:
            assert stream.read() == text.encode()
    names = [each.base_name for each in filesystem.get_file_info(fs.FileSelector(f"{inside}/a"))]
    assert sorted(names) == ["1.jsonl", "b", "result.json"]


def test_places_lie_in_their_folder_and_links_do_not(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.txt").write_text("x")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out.txt")
    (tmp_path / "in" / "file").write_text("x")
    assert lies_in(place(str(tmp_path), "in/file"), place(str(tmp_path), "in"))
    assert not lies_in(place(str(tmp_path), "in/link"), place(str(tmp_path), "in"))
    assert lies_in(place("s3://bucket/in/file"), place("s3://bucket/in"))


def test_a_relative_path_lies_in_the_project_and_a_uri_does_not(tmp_path: Path) -> None:
    assert below(tmp_path, "inbox") == tmp_path / "inbox"
    assert below(tmp_path, "/inbox") == Path("/inbox")
    assert str(below(tmp_path, "s3://bucket/inbox")) == "s3://bucket/inbox"
