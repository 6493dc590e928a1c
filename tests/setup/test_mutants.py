"""The deliberate wrong rules of `make mutants`: each still fits the code that it would break."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def script() -> Any:
    """Import scripts/mutation_check.py, which lies in no package."""
    spec = importlib.util.spec_from_file_location("mutation_check", PROJECT / "scripts" / "mutation_check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = script()
MUTANTS = CHECK.mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_that_a_mutant_replaces_stands_once_in_its_file_and_what_it_leaves_compiles(mutant: Any) -> None:
    file = PROJECT / "include" / "txloom" / mutant.file
    right = file.read_text()
    wrong = mutant.within(right)
    assert wrong != right
    compile(wrong, file, "exec")


def test_the_tests_that_should_catch_a_mutant_exist() -> None:
    assert [test for mutant in MUTANTS for test in mutant.tests if not (PROJECT / test.split("::")[0]).exists()] == []
    assert [mutant.name for mutant in MUTANTS if not mutant.tests] == []


def test_each_mutant_has_a_sentence_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names)) >= 14


@pytest.mark.parametrize(("code", "count"), [("", 0), ("x = 1; x = 1", 2)])
def test_a_mutant_that_no_longer_fits_is_refused_by_name(code: str, count: int) -> None:
    mutant = CHECK.Mutant("one is two", "a/b.py", "x = 1", "x = 2", ())
    with pytest.raises(CHECK.Untrustworthy) as refused:
        mutant.within(code)
    reason = f"mutant 'one is two': 'x = 1' stands {count} times in include/txloom/a/b.py, expected once"
    assert str(refused.value) == reason
