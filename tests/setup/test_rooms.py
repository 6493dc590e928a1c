"""Which room imports which: inside a folder no two rooms import each other, whether straight or by way of a third."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
LIBRARY = PROJECT / "include" / "txloom"
FILES = {".".join(file.relative_to(LIBRARY.parent).with_suffix("").parts): file for file in LIBRARY.rglob("*.py")}
MODULES = {name.removesuffix(".__init__"): file for name, file in FILES.items()}
FOLDERS = sorted(
    {str(file.parent.relative_to(LIBRARY)) for file in FILES.values() if any(file.parent.glob("*/__init__.py"))}
)
"""Folders that hold rooms, and are held by one or are the library itself."""

Graph = dict[str, dict[str, str]]
"""By room the rooms that it imports, each with an import that shows it."""


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the modules of the library that a module imports, at its top, in a function or for its types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside in MODULES else node.module


def room_of(module: str, folder: str) -> str | None:
    """Return what lies in a folder and is, or holds, a module: a room, or a file beside the rooms; None outside of it.

    >>> room_of("txloom.storage.delta.sql", "storage"), room_of("txloom.storage.paths", "storage")
    ('delta', 'paths')
    """
    prefix = ".".join(["txloom", *Path(folder).parts]) + "."
    return module.removeprefix(prefix).split(".")[0] if module.startswith(prefix) else None


def graph(folder: str) -> Graph:
    """Return which rooms of a folder import which."""
    arrows: Graph = {}
    for module, file in sorted(MODULES.items()):
        room = room_of(module, folder)
        for target in imported(ast.parse(file.read_text())) if room else ():
            other = room_of(target, folder)
            if room is not None and other is not None and other != room:
                arrows.setdefault(room, {}).setdefault(other, f"{module} imports {target}")
    return arrows


def circles(arrows: Graph) -> list[str]:
    """Return the imports that lie on a circle.

    >>> circles({"a": {"b": "a.x imports b.y"}, "b": {"c": "b imports c"}, "c": {"a": "c imports a.z"}, "d": {"a": ""}})
    ['a.x imports b.y', 'b imports c', 'c imports a.z']
    """
    reached = {room: set(others) for room, others in arrows.items()}
    while any(others < others.union(*(reached.get(each, set()) for each in others)) for others in reached.values()):
        reached = {
            room: others.union(*(reached.get(each, set()) for each in others)) for room, others in reached.items()
        }
    return sorted(
        shown for room, others in arrows.items() for other, shown in others.items() if room in reached.get(other, ())
    )


def test_the_folders_of_rooms_are_seen() -> None:
    assert {".", "config", "events", "steps", "storage", "storage/views"} <= {*FOLDERS}
    assert "delta" in graph("storage")["publishing"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_rooms_of_a_folder_import_each_other_in_a_circle(folder: str) -> None:
    assert circles(graph(folder)) == []
