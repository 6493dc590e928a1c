"""Which files below a folder are opened, by whatever library and thread: Linux's inotify, without a package."""

import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CLOSE_WRITE, CLOSE_NOWRITE, OPEN, OVERFLOW, FOLDER = 0x8, 0x10, 0x20, 0x4000, 0x40000000
EVENT = struct.Struct("iIII")
AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Read:
    """A file that was opened to be read, or a folder whose files were listed."""

    path: Path
    is_folder: bool


class OpenedFiles:
    """Watches a folder and those below it that were there when `read` was last called.

    Linux tells a file that is opened again at once, before it was closed, only once.
    """

    def __init__(self, root: Path) -> None:
        """Begin to watch; root: a folder that exists."""
        self._system, self._root, self._folders = ctypes.CDLL(None, use_errno=True), root, dict[int, Path]()
        self._queue = self._checked(self._system.inotify_init1(os.O_NONBLOCK), "inotify_init1")
        self._watch()

    def close(self) -> None:
        """End."""
        os.close(self._queue)

    def read(self) -> list[Read]:
        """Return what was read since the last call; a file that is still open counts once it is closed."""
        seen = []
        for folder, mask, name in self._events():
            if mask & FOLDER:
                seen += [Read(folder, is_folder=True)] if mask & OPEN and not name else []
            elif mask & CLOSE_NOWRITE:
                seen.append(Read(folder / name, is_folder=False))
        self._watch()
        list(self._events())  # the walk through the folders listed each of them
        return seen

    def _watch(self) -> None:
        for folder, _, _ in os.walk(self._root):
            mask = OPEN | CLOSE_NOWRITE
            number = self._system.inotify_add_watch(self._queue, os.fsencode(folder), mask)
            self._folders[self._checked(number, folder)] = Path(folder)

    @staticmethod
    def _checked(number: int, what: str) -> int:
        if number < 0:
            raise OSError(ctypes.get_errno(), what)
        return number

    def _events(self) -> Iterator[tuple[Path, int, str]]:
        """Yield folder, kind and name of what happened; raises OSError where Linux could not keep all of it."""
        while True:
            try:
                content = os.read(self._queue, AT_ONCE)
            except BlockingIOError:
                return
            at = 0
            while at < len(content):
                number, mask, _, length = EVENT.unpack_from(content, at)
                name = content[at + EVENT.size : at + EVENT.size + length].rstrip(b"\0").decode()
                at += EVENT.size + length
                if mask & OVERFLOW:
                    raise OSError("more was opened than Linux keeps (fs.inotify.max_queued_events)")
                yield self._folders[number], mask, name
