"""A YAML file as items: every value has its path, its line and, if the environment replaced it, the text in the file.

Scalars are read as YAML 1.2 reads them, so `on`, `no` and `12:30` are texts.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from txloom.config.problems import Problem, Unfit, listed, show
from txloom.config.yaml.environment import CONNECTION_FIELDS, connections_in, expand, may_name_connections

TAG = "tag:yaml.org,2002:"
MOST_ITEMS = 100_000
"""The most values in a file once its aliases are followed: far above 1,000 tables, far below an alias bomb."""
DEEPEST = 20


@dataclass(frozen=True, eq=False)
class Item:
    """One value of a file; `value` is a scalar, a dict of items or a list of items."""

    path: str
    line: int
    value: Any
    written: str | None = None
    """The text in the file, if a value of the environment replaced it; else None."""

    @property
    def shown(self) -> str:
        """Return the value as messages show it; of a value from the environment, only the text in the file."""
        return show(self.value) if self.written is None else f"{show(self.written)} (its value is not shown)"

    @property
    def plain(self) -> Any:
        """Return the value as plain Python."""
        if isinstance(self.value, dict):
            return {name: item.plain for name, item in self.value.items()}
        return [item.plain for item in self.value] if isinstance(self.value, list) else self.value

    def get(self, name: str) -> "Item | None":
        """Return a member of a mapping; None where there is none, or no mapping."""
        member = self.value.get(name) if isinstance(self.value, dict) else None
        return member if isinstance(member, Item) else None

    def given(self, name: str) -> "Item | None":
        """Return a member of a mapping that has a value; a key without one is as good as left out."""
        member = self.get(name)
        return member if member is not None and member.value is not None else None

    def members(self, name: str) -> list["Item"]:
        """Return the items of a member that is a list or a mapping, in order; else an empty list."""
        member = self.get(name)
        value = member.value if member is not None else None
        return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []

    def text(self, name: str) -> str | None:
        """Return a member that is text."""
        member = self.get(name)
        return member.value if member is not None and isinstance(member.value, str) else None

    def walk(self) -> Iterator["Item"]:
        """Yield the item and all items inside it."""
        yield self
        inside = self.value.values() if isinstance(self.value, dict) else self.value
        for item in inside if isinstance(self.value, dict | list) else ():
            yield from item.walk()

    def child(self, part: str | int) -> "Item | None":
        """Return the item one step of a model's location below; a number also selects the n-th member of a mapping."""
        if isinstance(part, str):
            return self.get(part)
        inside = list(self.value.values()) if isinstance(self.value, dict) else self.value
        return inside[part] if isinstance(inside, list) and part < len(inside) else None


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


def _resolve(kind: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(TAG + kind, re.compile(f"^(?:{pattern})$"), list(first))


_resolve("null", "~|null|Null|NULL|", "~nN")
_Loader.yaml_implicit_resolvers.setdefault("", []).extend(_Loader.yaml_implicit_resolvers["~"])
_resolve("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_resolve("int", "[-+]?[0-9]+", "-+0123456789")
_resolve("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789")
_resolve("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+.")
_resolve("merge", "<<", "<")


def read(
    text: str, file: str, environment: Mapping[str, str], *, connected: bool = True
) -> tuple[Item | None, list[Problem]]:
    """Return the items of a YAML text, None without any, and its problems as YAML.

    file: for the problems. environment, connected: see `environment.expand`.
    """
    reading = _Reading(file, environment, connected, [])
    try:
        _measure(text)
        node = _Loader(text).get_single_node()
        return (None if node is None else reading.item(node, "", 1, 0)), reading.problems
    except yaml.YAMLError as error:
        return None, [_unreadable(error, text, file)]
    except _Endless:
        return None, [Problem(file, 1, "", "values inside values without end", "a plain declaration")]


class _Endless(Exception):
    """A file is nested deeper, or with its aliases larger, than a declaration may be."""


def _measure(text: str) -> None:
    """Raise _Endless for deep nesting before PyYAML composes the file, because that recurses."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _Endless


@dataclass
class _Reading:
    """Turns YAML nodes into items, and collects problems."""

    file: str
    environment: Mapping[str, str]
    connected: bool
    problems: list[Problem]
    items: int = 0

    def item(self, node: yaml.Node, path: str, line: int, depth: int) -> Item:
        self.items += 1
        if depth > DEEPEST or self.items > MOST_ITEMS:
            raise _Endless
        if isinstance(node, yaml.MappingNode) and node.tag == TAG + "map":
            return Item(path, line, self._mapping(node, path, depth))
        if isinstance(node, yaml.SequenceNode) and node.tag == TAG + "seq":
            inside = enumerate(node.value)
            return Item(path, line, [self.item(sub, f"{path}[{i}]", _line(sub), depth + 1) for i, sub in inside])
        return self._scalar(node, path, line)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Item]:
        members: dict[str, Item] = {}
        lines: dict[str, int] = {}
        merged: list[Item] = []
        for key, value in node.value:
            line = _line(key)
            if key.tag == TAG + "merge":
                merged += self._merged(value, path, line, depth)
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _TEXTUAL or not key.value:
                shown = f"the key {show(key.value)}" if isinstance(key, yaml.ScalarNode) else "a key that is no text"
                self._refuse(line, path, shown, "text as a key")
                continue
            name = key.value
            if name in members:
                hint = f"The first is in line {lines[name]}."
                self._refuse(line, inner(path, name), "the same key again", "each key once", hint)
                continue
            lines[name] = line
            members[name] = self.item(value, inner(path, name), line, depth + 1)
        for item in merged:
            for name, member in item.value.items() if isinstance(item.value, dict) else ():
                members.setdefault(name, member)
        return members

    def _merged(self, node: yaml.Node, path: str, line: int, depth: int) -> list[Item]:
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not all(isinstance(sub, yaml.MappingNode) for sub in nodes):
            self._refuse(line, inner(path, "<<"), "something else", "an alias of a mapping")
            return []
        return [self.item(sub, path, line, depth + 1) for sub in nodes]

    def _scalar(self, node: yaml.Node, path: str, line: int) -> Item:
        kind = node.tag.removeprefix(TAG)
        if not isinstance(node, yaml.ScalarNode) or kind not in _SCALARS:
            self._refuse(line, path, f"the tag {show(node.tag.replace(TAG, '!!'))}", "plain YAML without tags")
            return Item(path, line, None)
        if kind != "str":
            try:
                return Item(path, line, _SCALARS[kind](node.value))
            except ValueError:
                self._refuse(line, path, show(node.value), f"what its tag !!{kind} says")
                return Item(path, line, None)
        try:
            value = self._expanded(node.value, path)
        except Unfit as unfit:
            self._refuse(line, path, show(node.value), unfit.expected, unfit.hint)
            return Item(path, line, "", node.value)
        return Item(path, line, value, node.value if value != node.value or connections_in(node.value) else None)

    def _expanded(self, text: str, path: str) -> str:
        if connections_in(text) and not may_name_connections(path):
            hint = f"A connection stands in {listed(CONNECTION_FIELDS, 'and')} only, so that no name hangs on a secret."
            raise Unfit("a text without ${conn:...}", hint)
        return expand(text, self.environment, connected=self.connected)

    def _refuse(self, line: int, path: str, value: str, expected: str, hint: str = "") -> None:
        self.problems.append(Problem(self.file, line, path, value, expected, hint))


_TEXTUAL = {TAG + kind for kind in ("str", "int", "float", "bool", "null")}
_SCALARS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    "bool": lambda text: text.lower() == "true",
    "null": lambda _: None,
}


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def inner(path: str, name: str) -> str:
    """Return the path of a member of a mapping.

    >>> inner("tables[2].columns", "total_amount"), inner("", "name"), inner("tables[2].columns", "to/tal")
    ('tables[2].columns.total_amount', 'name', "tables[2].columns.'to/tal'")
    """
    name = name if name.isidentifier() else show(name)
    return f"{path}.{name}" if path else name


def _unreadable(error: yaml.YAMLError, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark is not None else text.count("\n", 0, getattr(error, "position", 0)) + 1
    trouble = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    if "another document" in trouble:
        return Problem(file, line, "", "a second document", "one pipeline in each file")
    hints = [_hint(written) for written in reversed(text.splitlines()[max(line - 2, 0) : line])]
    return Problem(file, line, "", f"text that is not YAML ({trouble})", "YAML", next(filter(None, hints), ""))


def _hint(line: str) -> str:
    """Return a hint for a frequent mistake in a line; YAML failed in this line or the next one."""
    body = line.strip()
    value = body.lstrip("- ").partition(": ")[2]
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "Indent with spaces, not with tabs."
    if body.startswith("#"):
        return ""
    if start := re.search(r"(?:^|: |- |[\[{,])\s*([*@%`])", body):
        return f"A text that begins with {start[1]} needs quotes."
    if re.search(r"[\[{].*\$\{", body):
        return "Inside { } and [ ], a text with ${...} needs quotes."
    if ": " in value and value[0] not in "{['\"":
        return "A text that holds ': ' needs quotes."
    return ""
