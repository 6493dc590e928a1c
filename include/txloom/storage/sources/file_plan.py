"""The files that a landing takes of a source, and from which position: new, grown, renamed and late ones.

A file is identified by what was read of it, not by its name alone. A file that begins with all that was read of a known
one has grown; under another name, when no other file has that content any more, it was rotated. A file whose content
changed is read from its beginning, and so is a copy of a file that still exists: it is a redelivery.

The files of a topic are read in the order of their names (`txloom.storage.sources.file_order`). Where cuts rely on that
order (`txloom.events.formats.is_in_commit_order`), no file is taken before an earlier one that is still written. In an
ordered topic, a new file continues inside the transaction that the file before it left open, unless their names show
that one between them is missing.
"""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from txloom.storage.paths import TablePaths
from txloom.storage.sources import file_positions
from txloom.storage.sources.file_lines import digest, first_line
from txloom.storage.sources.file_order import Key, bases, follows_on, stream_order
from txloom.storage.sources.file_positions import Name, Position
from txloom.storage.sources.files import SourceFile, continues
from txloom.storage.sources.splits import Task
from txloom.storage.stores.places import Place, place

MOST = 10
"""Files with the same first line with which a new file is compared."""
UNREADABLE = (OSError, EOFError, zlib.error)
"""Errors of reading a damaged file: they pass here, and the landing that takes the file reports it."""
READ_WHOLE = "change_sets"
"""The format whose rows are identified by how often they occur in their file: a changed file is read from its
beginning.
"""


@dataclass(frozen=True)
class FilePlan:
    """The input splits that a landing takes, in order.

    left_out: how many files are left out: they are still written, or wait for an earlier one that is. waiting: by the
    file that is still written, how many later ones of its topic wait for it.
    """

    tasks: Sequence[Task] = ()
    left_out: int = 0
    waiting: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownFiles:
    """What is known of the files of a source, as far as it matters to the files that exist.

    Args:
        positions: how far the files were read that exist, or may be what one of them was renamed from.
        before: name, size and modification of files that a version of txloom without positions took.
        others: names of further files that were read: files of an ordered topic have their place among them.
    """

    positions: Mapping[Name, Position]
    before: Collection[tuple[str, int, int]] = ()
    others: Collection[str] = ()
    _heads: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        paths: TablePaths,
        root: str,
        files: Sequence[SourceFile],
        before: Collection[tuple[str, int, int]],
        *,
        is_ordered: bool,
    ) -> "KnownFiles":
        """Return what is known of files, without reading what was ever known of others.

        Args:
            paths: the tables of the pipeline.
            root: the source's folder.
            files: the files that exist.
            before: what a version of txloom without positions took.
            is_ordered: whether the messages of a topic depend on their order.
        """
        existing = {file.file for file in files}
        positions = file_positions.newest(paths, existing)
        known = cls(positions, before)
        new = [file for file in files if known.is_new(root, file)]
        if not new:
            return known
        heads = {head for file in new if (head := known.head(root, file)) is not None}
        related = file_positions.begun_with(paths, heads)
        related |= {base for file in new for base in bases(file.file)}
        if is_ordered:
            related |= file_positions.renamed(paths)
        others = file_positions.every_file(paths) if is_ordered else ()
        return replace(known, positions=file_positions.newest(paths, existing | related), others=others)

    def is_new(self, root: str, file: SourceFile) -> bool:
        """Return whether a file has to be looked at: it has changed since it was read, or is readable again."""
        position = self.positions.get((file.topic, file.file))
        if position is None:
            return (file.file, file.size, file.modified) not in self.before
        if (position.size, position.modified) != (file.size, file.modified):
            return True
        return (
            position.problem is not None
            and position.lost is None
            and position.is_access
            and _opens(place(root, file.file))
        )

    def head(self, root: str, file: SourceFile) -> str | None:
        """Return the hash of a file's first line, which is read once; None without one, and if it cannot be read."""
        if file.file not in self._heads:
            try:
                self._heads[file.file] = first_line(place(root, file.file), file.size)
            except UNREADABLE:
                self._heads[file.file] = None
        return self._heads[file.file]


@dataclass
class _Topic:
    """The files of one topic, and what is known of them.

    read: all files that were read. names: also those that exist, or were taken before positions were kept. changed:
    files whose content is not what was read under their name. moved: the new name of a renamed file, by its old one.
    """

    root: str
    known: KnownFiles
    files: Sequence[SourceFile]
    positions: Mapping[str, Position]
    read: frozenset[str]
    names: frozenset[str]
    changed: frozenset[str] = frozenset()
    moved: dict[str, str] = field(default_factory=dict)

    def order(self, file: str) -> Key:
        """Return the key that sorts files in the order in which they were written."""
        return stream_order(file, self.names)

    def was_read(self, file: str) -> Position | None:
        """Return how far a file of this name was read; None where nothing of it was."""
        position = self.positions.get(file)
        return position if position is not None and position.digest is not None else None

    def holds(self, file: SourceFile, position: Position) -> bool:
        """Return whether a file holds what was last read of a known one; False for a file that cannot be read."""
        try:
            return continues(place(self.root, file.file), file.size, position)
        except UNREADABLE:
            return False

    def is_copy(self, file: SourceFile, position: Position) -> bool:
        """Return whether a file has the content of another one that was read and still exists."""
        (other,) = [each for each in self.files if each.file == position.file]
        try:
            digests = [digest(place(self.root, each.file), each.size, 0) for each in (file, other)]
        except UNREADABLE:
            return False
        return digests[0] == digests[1]

    def follower(self, file: str) -> str | None:
        """Return the file that now has the content which was read under a name; None without one."""
        was = {each.was: each.file for each in self.positions.values() if each.was is not None}
        return self.moved.get(file) or was.get(file)


def plan(
    root: str,
    files: Sequence[SourceFile],
    known: KnownFiles,
    is_whole: Callable[[SourceFile, bool], bool],
    format: str,  # noqa: A002 - as the declaration names it
    is_in_commit_order: Callable[[str], bool],
) -> FilePlan:
    """Return the files that a landing takes.

    Args:
        root: the source's folder.
        files: the files that exist, grouped by topic.
        known: what is known of them and of others.
        is_whole: returns whether a producer has finished a file; its second argument: a final newline may be the end.
        format: of the source.
        is_in_commit_order: returns whether a topic's files are taken in order, and none before an earlier one is whole.
    """
    tasks, left_out, waiting = list[Task](), 0, dict[str, int]()
    positions = _by_topic(known.positions)
    others, old = _names_by_topic(known.others), _names_by_topic(file for file, _, _ in known.before)
    for topic, of_topic in groupby(files, key=lambda file: file.topic):
        existing, of_known = list(of_topic), positions.get(topic, {})
        read = frozenset(of_known.keys() | others.get(topic, set()))
        names = read | {file.file for file in existing} | old.get(topic, set())
        new = [file for file in existing if known.is_new(root, file)]
        about = _Topic(root, known, existing, of_known, read, names)
        about.changed = frozenset(
            file.file for file in new if (was := about.was_read(file.file)) is not None and not about.holds(file, was)
        )
        taken, unfinished = _whole(about, new, is_whole, is_ordered=format == "wal2json")
        if unfinished and is_in_commit_order(topic):
            first = about.order(unfinished[0].file)
            before = [file for file in taken if about.order(file.file) < first]
            if len(before) < len(taken):
                waiting[unfinished[0].file] = len(taken) - len(before)
            taken = before
        left_out += len(new) - len(taken)
        tasks += _tasks(about, taken, format)
    return FilePlan([replace(task, number=number) for number, task in enumerate(tasks, 1)], left_out, waiting)


def _by_topic(positions: Mapping[Name, Position]) -> dict[str, dict[str, Position]]:
    by_topic: dict[str, dict[str, Position]] = {}
    for (topic, file), position in positions.items():
        by_topic.setdefault(topic, {})[file] = position
    return by_topic


def _names_by_topic(files: Iterable[str]) -> dict[str, set[str]]:
    file_names: dict[str, set[str]] = {}
    for file in files:
        file_names.setdefault(file.split("/", 1)[0], set()).add(file)
    return file_names


def _opens(path: Place) -> bool:
    try:
        path.open("rb").close()
    except OSError:
        return False
    return True


def _whole(
    about: _Topic, new: Sequence[SourceFile], is_whole: Callable[[SourceFile, bool], bool], *, is_ordered: bool
) -> tuple[list[SourceFile], list[SourceFile]]:
    """Return the files that are finished, and those that are still written, each in order.

    In an ordered topic, a file that appears after one behind it was read may be a copy in progress: its final newline
    does not count as its end.
    """
    read = [about.order(name) for name in about.read] if is_ordered else []
    last, parts = max(read, default=None), (list[SourceFile](), list[SourceFile]())
    for file in sorted(new, key=lambda file: about.order(file.file)):
        is_late = last is not None and about.was_read(file.file) is None and about.order(file.file) < last
        parts[0 if is_whole(file, not is_late) else 1].append(file)
    return parts


def _tasks(about: _Topic, taken: Sequence[SourceFile], format: str) -> Iterator[Task]:  # noqa: A002
    """Yield an input split for each file that is taken, in order."""
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
    """Return the input split of a file that is new or has new content; one that was only renamed is not read again."""
    head = about.known.head(about.root, file)
    alike = [each for each in about.positions.values() if head is not None and each.head == head][-MOST:]
    unchanged = {each.file for each in about.files} - about.changed
    for position in alike:
        if position.file not in unchanged and position.file not in about.moved and about.holds(file, position):
            about.moved[position.file] = file.file
            return _task(file, position, position.until)
    same_name = [each for each in alike if each.file == file.file]
    same = same_name or [each for each in alike if each.file in unchanged and about.is_copy(file, each)]
    return _task(file, same[-1] if same else None)


def _followed(about: _Topic, ordered: Sequence[str], origins: Mapping[str, Task]) -> dict[str, str]:
    """Return by file the one that it follows; files that were read before one that appears late follow it anew."""
    follows = dict[str, str]()
    renamed = {each.was for each in about.positions.values() if each.was is not None}
    names = sorted(about.names - (renamed - {file.file for file in about.files}), key=about.order)
    numbers = {name: at for at, name in enumerate(names)}
    for name in ordered:
        if origins[name].origin is None and (before := _predecessor(about, names[: numbers[name]], name)) is not None:
            follows[name] = before
    for name in ordered:
        if about.was_read(name) is None:
            _follow_anew(about, names[numbers[name] :], origins, follows)
    return follows


def _follow_anew(about: _Topic, names: Sequence[str], origins: Mapping[str, Task], follows: dict[str, str]) -> None:
    """Let the files behind a late one follow it, as long as they began in a transaction that was not open."""
    existing = {file.file for file in about.files}
    for before, name in pairwise(names):
        read = about.was_read(name)
        if name not in existing or name in origins or read is None or not read.begins_inside:
            return
        if follows_on(before, name, about.names) == "no":
            return
        follows[name] = before


def _predecessor(about: _Topic, names: Sequence[str], name: str) -> str | None:
    """Return the file that ends where a new one begins, as far as it is known; names: those that come before it."""
    adjoins = follows_on(names[-1], name, about.names) if names else "no"
    if adjoins == "yes":
        return names[-1]
    if about.was_read(name) is not None:
        return about.follower(name)
    return names[-1] if adjoins == "unknown" else None
