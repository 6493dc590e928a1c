"""Which files of a source a landing takes, and from where on: what is new, has grown, was renamed, came late.

A file is known by what was read of it, not by its name alone. What begins with all that was read of a known file has
grown; under another name, when no other file has that content any more, it was rotated. A file whose content changed
is read from its beginning, and so is one that bears another's content while that is still there: it came again.

Of an ordered topic, files are read in the order of their names (`txloom.storage.sources.file_order`). A new one goes on
inside the transaction that the file before it left open, unless their names say that one between them is missing.
"""

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from pathlib import Path

from txloom.storage.sources.file_lines import digest, first_line
from txloom.storage.sources.file_order import Key, follows_on, stream_order
from txloom.storage.sources.file_positions import Name, Position
from txloom.storage.sources.files import SourceFile, continues
from txloom.storage.sources.splits import Task

MOST = 10
"""Files with the same first line that a new file is compared with."""
UNREADABLE = (OSError, EOFError, zlib.error)
"""What the reading of a damaged file raises: the landing that takes it names it."""
READ_WHOLE = "change_sets"
"""The format whose rows count by how often they stand in their file: one that changed is read from its beginning."""


@dataclass(frozen=True)
class FilePlan:
    """The files that a landing takes, in order, and how many are left out because they are still written."""

    tasks: Sequence[Task] = ()
    left_out: int = 0


@dataclass
class _Topic:
    """What is known of one topic's files.

    changed: files whose content is not what was read under their name. moved: by the name that it had, a file that was
    renamed.
    """

    root: str
    files: Sequence[SourceFile]
    positions: Mapping[str, Position]
    names: frozenset[str]
    changed: frozenset[str] = frozenset()
    moved: dict[str, str] = field(default_factory=dict)

    def order(self, file: str) -> Key:
        """Return what puts files into the order in which they were written."""
        return stream_order(file, self.names)

    def was_read(self, file: str) -> Position | None:
        """Return how far something was read under a name."""
        position = self.positions.get(file)
        return position if position is not None and position.digest is not None else None

    def holds(self, file: SourceFile, position: Position) -> bool:
        """Tell whether a file holds what was read last of a known one; what cannot be read holds nothing."""
        try:
            return continues(Path(self.root, file.file), file.size, position)
        except UNREADABLE:
            return False

    def is_copy(self, file: SourceFile, position: Position) -> bool:
        """Tell whether a file has the content of another one that was read, and is still there."""
        (other,) = [each for each in self.files if each.file == position.file]
        try:
            digests = [digest(Path(self.root, each.file), each.size, 0) for each in (file, other)]
        except UNREADABLE:
            return False
        return digests[0] == digests[1]

    def follower(self, file: str) -> str | None:
        """Return the file that got the content which a name had before."""
        was = {each.was: each.file for each in self.positions.values() if each.was is not None}
        return self.moved.get(file) or was.get(file)


def plan(
    root: str,
    files: Sequence[SourceFile],
    positions: Mapping[Name, Position],
    before: Collection[tuple[str, int, int]],
    is_whole: Callable[[SourceFile, bool], bool],
    format: str,  # noqa: A002 - as the declaration names it
) -> FilePlan:
    """Return what a landing takes of the files that are there.

    before: name, size and modification of files that a version without positions took. is_whole: says of a file, and of
    whether its last newline may be its end, that nobody writes it any more.
    """
    tasks, left_out = list[Task](), 0
    known, old = _by_topic(positions), _names_by_topic(before)
    for topic, of_topic in groupby(files, key=lambda file: file.topic):
        there, read = list(of_topic), known.get(topic, {})
        names = frozenset({file.file for file in there} | read.keys() | old.get(topic, set()))
        new = [file for file in there if is_new(root, file, read.get(file.file), before)]
        about = _Topic(root, there, read, names)
        about.changed = frozenset(
            file.file for file in new if (was := about.was_read(file.file)) is not None and not about.holds(file, was)
        )
        taken = _whole(about, new, is_whole, is_ordered=format == "wal2json")
        left_out += len(new) - len(taken)
        tasks += _tasks(about, taken, format)
    return FilePlan([replace(task, number=number) for number, task in enumerate(tasks, 1)], left_out)


def _by_topic(positions: Mapping[Name, Position]) -> dict[str, dict[str, Position]]:
    by_topic: dict[str, dict[str, Position]] = {}
    for (topic, file), position in positions.items():
        by_topic.setdefault(topic, {})[file] = position
    return by_topic


def _names_by_topic(before: Collection[tuple[str, int, int]]) -> dict[str, set[str]]:
    file_names: dict[str, set[str]] = {}
    for file, _, _ in before:
        file_names.setdefault(file.split("/", 1)[0], set()).add(file)
    return file_names


def is_new(root: str, file: SourceFile, known: Position | None, before: Collection[tuple[str, int, int]]) -> bool:
    """Tell whether a file is to be looked at: it has changed since it was, or can be read again."""
    if known is None:
        return (file.file, file.size, file.modified) not in before
    if (known.size, known.modified) != (file.size, file.modified):
        return True
    return known.problem is not None and known.lost is None and known.is_access and _opens(Path(root, file.file))


def _opens(path: Path) -> bool:
    try:
        path.open("rb").close()
    except OSError:
        return False
    return True


def _whole(
    about: _Topic, new: Sequence[SourceFile], is_whole: Callable[[SourceFile, bool], bool], *, is_ordered: bool
) -> list[SourceFile]:
    """Return the files that are whole, in order; of an ordered topic none behind one that is still written.

    There, a file that comes when one behind it was read already may be a copy that is still written: its last newline
    does not tell.
    """
    read = [about.order(name) for name in about.positions] if is_ordered else []
    last, taken = max(read, default=None), list[SourceFile]()
    for file in sorted(new, key=lambda file: about.order(file.file)):
        is_late = last is not None and about.was_read(file.file) is None and about.order(file.file) < last
        if is_whole(file, not is_late):
            taken.append(file)
        elif is_ordered:
            break
    return taken


def _tasks(about: _Topic, taken: Sequence[SourceFile], format: str) -> Iterator[Task]:  # noqa: A002
    """Yield what is read of each file that is taken, in order."""
    origins = _origins(about, taken, format)
    there = {file.file: file for file in about.files}
    order = {name: (about.order(name), 1) for name in origins}
    order |= {name: (about.order(was), 0) for was, name in about.moved.items() if was in there}
    follows = _followed(about, sorted(origins, key=order.__getitem__), origins) if format == "wal2json" else {}
    for name in sorted({*origins, *follows}, key=lambda name: order.get(name, (about.order(name), 1))):
        file, task = there[name], origins.get(name)
        if task is None:
            task = Task(0, file.topic, name, file.size, modified=file.modified, origin=about.positions[name])
        yield replace(task, follows=follows.get(name))


def _origins(about: _Topic, taken: Sequence[SourceFile], format: str) -> dict[str, Task]:  # noqa: A002
    """Return by file what is read of it: from where it was read to, or from its beginning."""
    origins = dict[str, Task]()
    for file in taken:
        position = about.was_read(file.file)
        is_grown = position is not None and file.file not in about.changed
        if position is not None and is_grown and (format != READ_WHOLE or file.size == position.size):
            origins[file.file] = _task(file, position, position.until)
        else:
            origins[file.file] = _task(file) if format == READ_WHOLE else _known_by_content(about, file)
    return origins


def _task(file: SourceFile, origin: Position | None = None, start: int = 0) -> Task:
    return Task(0, file.topic, file.file, file.size, modified=file.modified, origin=origin, start=start)


def _known_by_content(about: _Topic, file: SourceFile) -> Task:
    """Return what is read of a file that is new, or has new content: nothing twice that was only renamed."""
    try:
        head = first_line(Path(about.root, file.file), file.size)
    except UNREADABLE:
        return _task(file)
    alike = [each for each in about.positions.values() if head is not None and each.head == head][-MOST:]
    there = {each.file for each in about.files} - about.changed
    for position in alike:
        if position.file not in there and position.file not in about.moved and about.holds(file, position):
            about.moved[position.file] = file.file
            return _task(file, position, position.until)
    same_name = [each for each in alike if each.file == file.file]
    same = same_name or [each for each in alike if each.file in there and about.is_copy(file, each)]
    return _task(file, same[-1] if same else None)


def _followed(about: _Topic, ordered: Sequence[str], origins: Mapping[str, Task]) -> dict[str, str]:
    """Return by file which one it follows; files that were read before one that has come now follow it anew."""
    follows = dict[str, str]()
    renamed = {each.was for each in about.positions.values() if each.was is not None}
    names = sorted(about.names - (renamed - {file.file for file in about.files}), key=about.order)
    places = {name: at for at, name in enumerate(names)}
    for name in ordered:
        if origins[name].origin is None and (before := _predecessor(about, names[: places[name]], name)) is not None:
            follows[name] = before
    for name in ordered:
        if about.was_read(name) is None:
            _follow_anew(about, names[places[name] :], origins, follows)
    return follows


def _follow_anew(about: _Topic, names: Sequence[str], origins: Mapping[str, Task], follows: dict[str, str]) -> None:
    """Let the files behind one that came late follow it, as long as they began in a transaction that was not open."""
    there = {file.file for file in about.files}
    for before, name in pairwise(names):
        read = about.was_read(name)
        if name not in there or name in origins or read is None or not read.begins_inside:
            return
        if follows_on(before, name, about.names) == "no":
            return
        follows[name] = before


def _predecessor(about: _Topic, names: Sequence[str], name: str) -> str | None:
    """Return the file that ends where a new one begins, as far as can be told; names: those that come before it."""
    tells = follows_on(names[-1], name, about.names) if names else "no"
    if tells == "yes":
        return names[-1]
    if about.was_read(name) is not None:
        return about.follower(name)
    return names[-1] if tells == "unknown" else None
