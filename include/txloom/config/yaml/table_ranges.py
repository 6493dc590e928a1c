"""Expand entries of `tables` that declare several tables of one shape into one entry for each name.

`name: [north, south]` or a range in a name, `readings_{01..65}`; `{name}` in `source` stands for the name.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from txloom.config.models.fields import NAME
from txloom.config.problems import Problem
from txloom.config.yaml.document import Item

PLACEHOLDER = "{name}"
MOST_TABLES = 2_000
"""The most tables for the ranges of a file: far above what one application merges, far below a mistyped million."""
_RANGE = re.compile(r"(.*)\{([0-9]{1,9})\.\.([0-9]{1,9})\}(.*)", re.DOTALL)


def expanded(root: Item, file: str) -> tuple[Item, list[Problem]]:
    """Return a declaration whose entries of `tables` each declare one table, and the problems of their names.

    The entries made from one entry keep its path and line, and share its items.
    """
    declared = root.get("tables")
    if declared is None or not isinstance(declared.value, list):
        return root, []
    expansion = _Expansion(file)
    entries = [entry for item in declared.value for entry in expansion.entries(item)]
    tables = replace(declared, value=entries)
    return replace(root, value={**root.value, "tables": tables}), expansion.problems


class _Expansion:
    """Turns entries into entries of one table each, and collects problems."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.left = MOST_TABLES

    def entries(self, entry: Item) -> list[Item]:
        name, source = entry.get("name"), entry.get("source")
        if name is None:
            return [entry]
        several = isinstance(name.value, list) or _range_of(name) is not None
        names = list(self._names(name)) or [name]
        if source is not None and isinstance(source.value, str):
            if several and PLACEHOLDER not in source.value:
                expected = f"a source with {PLACEHOLDER}, which stands for the name of each table"
                self._refuse(source, source.shown, expected)
        else:
            source = None
        return [_named(entry, name, source) for name in names]

    def _names(self, name: Item) -> Iterator[Item]:
        if not isinstance(name.value, list):
            yield from self._of_range(name)
            return
        if not name.value:
            self._refuse(name, name.shown, "a name, or a list of at least one")
        for member in name.value:
            yield from self._of_range(member)

    def _of_range(self, name: Item) -> Iterator[Item]:
        bounds = _range_of(name)
        if bounds is None:
            yield name
            return
        before, first, last, after = bounds.groups()
        numbers = range(int(first), int(last) + 1)
        if not numbers:
            self._refuse(name, name.shown, "a range that counts upwards, such as {01..65}")
        elif len(numbers) > self.left:
            self._refuse(name, name.shown, f"ranges of at most {MOST_TABLES} tables in a file")
        else:
            self.left -= len(numbers)
            digits = max(len(first), len(last)) if first.startswith("0") and len(first) > 1 else 0
            for number in numbers:
                yield replace(name, value=f"{before}{number:0{digits}}{after}")

    def _refuse(self, item: Item, value: str, expected: str) -> None:
        self.problems.append(Problem(self.file, item.line, item.path, value, expected))


def _range_of(name: Item) -> re.Match[str] | None:
    return _RANGE.fullmatch(name.value) if isinstance(name.value, str) else None


def _named(entry: Item, name: Item, source: Item | None) -> Item:
    """Return an entry with one name.

    For a name that is not valid, the name's path replaces the placeholder in the source, so that only the name is
    reported and not the source too.
    """
    members = {**entry.value, "name": name}
    if source is not None:
        sound = isinstance(name.value, str) and re.fullmatch(NAME, name.value)
        stands = name.value if sound else re.sub(r"\W", "_", name.path)
        members["source"] = replace(source, value=source.value.replace(PLACEHOLDER, stands))
    return replace(entry, value=members)
