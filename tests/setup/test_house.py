"""Rules of the house that a program can check: words of names, and sizes of folders."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = ("include/txloom", "jobs", "dags", "plugins", "scripts", "tests")
BANNED = {"found", "told", "own", "asked", "wanted"}
"""Words that say nothing about what a name holds, or that mean several things."""
MOST_FILES = 14


def modules(*rooms: str) -> list[Path]:
    """Return the Python files of rooms."""
    return sorted(file for room in rooms for file in (PROJECT / room).rglob("*.py"))


def named(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module gives: of variables, parameters, attributes, aliases, functions and classes.

    The name of a test is a sentence: its words are not names.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if not name.startswith("test_"):
                yield name
            case ast.alias(asname=str(name)):
                yield name


def words(name: str) -> set[str]:
    """Return the words of a name.

    >>> sorted(words("_isTold_now"))
    ['is', 'now', 'told']
    """
    return set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")) - {""}


@pytest.mark.parametrize("room", ROOMS)
def test_no_name_holds_a_banned_word(room: str) -> None:
    banned = [
        f"{file.relative_to(PROJECT)}: {name}"
        for file in modules(room)
        for name in sorted(set(named(ast.parse(file.read_text()))))
        if words(name) & BANNED
    ]
    assert banned == []


def test_no_room_has_more_files_than_a_reader_holds_in_the_head() -> None:
    """`jobs` is no room to read: it holds one entry point for each job, by the name that people and Airflow call."""
    folders = {file.parent for file in modules("include/txloom", "dags", "plugins", "scripts")}
    sizes = {
        str(folder.relative_to(PROJECT)): len([file for file in folder.glob("*.py") if file.name != "__init__.py"])
        for folder in folders
    }
    assert {folder: size for folder, size in sizes.items() if size > MOST_FILES} == {}


def test_one_function_says_what_a_commit_carries() -> None:
    """Else each place decides by itself whether its commit is refused once another run holds the lease."""
    calls = [
        str(file.relative_to(PROJECT))
        for file in modules("include/txloom")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "CommitProperties"
    ]
    assert calls == ["include/txloom/storage/delta/commits.py"]


MOST_PARAMETERS = 6


def test_no_function_has_more_parameters_than_a_caller_holds_in_the_head() -> None:
    """What belongs together is a dataclass; `self` and `cls` are not counted."""
    many = []
    for file in modules(*ROOMS):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                given += [each for each in (node.args.vararg, node.args.kwarg) if each is not None]
                names = [each.arg for each in given if each.arg not in ("self", "cls")]
                if len(names) > MOST_PARAMETERS:
                    many.append(f"{file.relative_to(PROJECT)}: {node.name}({', '.join(names)})")
    assert many == []
