"""A service that cannot be had: a skip on a person's machine, a failure in continuous integration."""

import ast
from pathlib import Path

import pytest

from services.absent import give_up_for
from services.fetched import NotHere

TESTS = Path(__file__).resolve().parents[1]


def test_a_persons_machine_may_lack_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no PostgreSQL here"):
        give_up_for(NotHere("no PostgreSQL here"))


def test_in_ci_it_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="is a failure: no PostgreSQL here"):
        give_up_for(NotHere("no PostgreSQL here"))


def test_no_test_skips_by_itself() -> None:
    by_itself = [
        f"{file.relative_to(TESTS)}:{node.lineno}"
        for file in sorted(TESTS.rglob("*.py"))
        if file != Path(__file__)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in ("pytest.skip", "pytest.mark.skip", "pytest.mark.skipif", "pytest.importorskip")
    ]
    assert [place.split(":")[0] for place in by_itself] == ["services/absent.py"]
