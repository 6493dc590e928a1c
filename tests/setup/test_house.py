"""Rules of the house that a program can check: words of names, sizes of folders, and where a module is tested."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from setup.tested_by import TESTED_BY

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = ("include/txloom", "jobs", "dags", "plugins", "scripts", "tests")
BANNED = {"found", "told", "own", "asked", "wanted"}
"""Words that say nothing about what a name holds, or that mean several things."""
MOST_FILES = 14
LIBRARY, TESTS = PROJECT / "include" / "txloom", PROJECT / "tests"
BESIDE = {
    "benchmarks": "measures, and is no test",
    "cluster": "runs jobs on a cluster of Spark, over lakes in other stores",
    "cycles": "plays whole cycles, each through several steps",
    "dags": "mirrors the folder dags beside include",
    "data": "holds what real sources sent",
    "docs": "holds the documents to what they say",
    "oracle": "is the second opinion, and its tests",
    "plugins": "mirrors the folder plugins beside include",
    "read": "reads what was published by other programs, and by txloom.read",
    "public": "plays cases that others published",
    "services": "starts the components that tests talk to",
    "selection": "chooses the tests of a run, and their order",
    "setup": "tests set-up, scripts and the house itself",
    "workloads": "plays random sources against everything at once",
    "events/fuzz": "spoils messages of every format",
    "steps/counted": "counts the work that steps do, for the test of it",
}
"""Folders of tests that mirror no room of the library, each with what it does."""
NAMED_TESTS = ("config", "current", "events", "history", "quality", "storage", "transactions")
"""Rooms of which each module has a test that bears its name, or a line in TESTED_BY."""


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
    folders = {file.parent for file in modules("include/txloom", "dags", "plugins", "scripts", "tests")}
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
    assert calls == ["include/txloom/storage/delta/committing.py"]


def mirrors_a_room(folder: str) -> bool:
    """Say whether a folder of tests, or one that holds it, is a room of the library, or stands in BESIDE."""
    parts = Path(folder).parts
    above = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    return (LIBRARY / folder).is_dir() or not BESIDE.keys().isdisjoint(above)


def test_the_folders_of_tests_are_the_rooms_of_the_library() -> None:
    folders = {file.parent.relative_to(TESTS).as_posix() for file in modules("tests")} - {"."}
    assert sorted(folder for folder in folders if not mirrors_a_room(folder)) == []
    assert sorted(folder for folder in BESIDE if not (TESTS / folder).is_dir() or (LIBRARY / folder).is_dir()) == []


def named_modules() -> set[str]:
    """Return the modules that have something to test, as `room/module`; one of constants alone has nothing."""
    return {
        file.relative_to(LIBRARY).with_suffix("").as_posix()
        for room in NAMED_TESTS
        for file in modules(f"include/txloom/{room}")
        if file.name != "__init__.py"
        and any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.walk(ast.parse(file.read_text())))
    }


def has_a_test_of_its_name(module: str) -> bool:
    """Say whether the mirrored folder holds test_MODULE.py or test_MODULE_ASPECT.py."""
    path = TESTS / module
    files = path.parent.glob(f"test_{path.name}*.py")
    return any(re.fullmatch(rf"test_{path.name}(_\w+)?", file.stem) for file in files)


def test_a_modules_test_is_found_by_its_name_or_in_the_table() -> None:
    unnamed = {module for module in named_modules() if not has_a_test_of_its_name(module)}
    assert sorted(unnamed ^ TESTED_BY.keys()) == []


def reached(test: str) -> set[str]:
    """Return what a file of tests imports, by itself, by fixtures beside it, or by what those import: `room/module`."""
    files = [TESTS / f"{test}.py", *(TESTS / folder / "conftest.py" for folder in Path(test).parents[:-1])]
    seen = set[Path]()
    while files:
        file = files.pop()
        if file not in seen and file.is_file():
            seen.add(file)
            files += imported(file)
    return {file.relative_to(LIBRARY).with_suffix("").as_posix() for file in seen if file.is_relative_to(LIBRARY)}


@cache
def imported(file: Path) -> list[Path]:
    """Return the files of the library and of tests that a file imports, and some that are not there."""
    names = set[str]()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = [base / name.replace(".", "/") for name in sorted(names) for base in (LIBRARY.parent, TESTS)]
    return [each for path in paths for each in (path.with_suffix(".py"), path / "__init__.py")]


@pytest.mark.parametrize("test", sorted(set(TESTED_BY.values())))
def test_a_test_in_the_table_exists_and_reaches_its_modules(test: str) -> None:
    assert (TESTS / f"{test}.py").is_file()
    assert {module for module, by in TESTED_BY.items() if by == test} - reached(test) == set()


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


SAME_NAME = {
    "alerts": "what a declaration says of alerts, and Airflow's task that sends them",
    "audit": "what a declaration says of it, and the step",
    "audits": "the view, and how the terminal shows it",
    "change_events": "a format as it is read, as it is generated, and the table that takes all formats",
    "change_sets": "a format as it is read, and as it is generated",
    "changes": "rows of a history, and changes that a generated source makes",
    "connections": "how a declaration names connections, and how Airflow's are looked up",
    "contradictions": "how a fold notices them, and what a merge reports of them",
    "cuts": "the table, and its view",
    "dead_letters": "how people see them, and the page's list",
    "decoder": "of each format",
    "findings": "what they are, and the table",
    "images": "of each format",
    "incidents": "what they are, and the table",
    "messages": "of each format, and those to people",
    "partitions": "of a declaration, and how rows are placed in them",
    "problems": "mistakes of a declaration, and the view of what is wrong with a pipeline",
    "producer_checks": "of the landing, and of the buffer",
    "producer_runs": "the rule, and the step that reports it",
    "spark": "where a declaration lets jobs run, and what a backfill does by it",
    "source": "what a declaration says of it, and one that is generated",
    "status": "what is shown, and how the terminal shows it",
    "values": "of a format, and of a generated source",
}
"""File names that several rooms have, each with what the files are."""


def test_files_of_one_name_in_several_rooms_are_about_one_thing() -> None:
    names = [file.stem for file in modules("include/txloom") if file.stem != "__init__"]
    assert {name for name in names if names.count(name) > 1} == SAME_NAME.keys()
