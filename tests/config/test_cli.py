"""`txloom check` and `txloom schema`."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from txloom.cli import main
from txloom.config.json_schema import schema_text

Declared = Callable[..., Path]
Captured = pytest.CaptureFixture[str]

RIGHT = "2 tables, 1 aggregate, 2 mirrors, 2 expectations"


def test_a_right_declaration_is_ok(declared: Declared, capsys: Captured) -> None:
    assert main(["check", str(declared())]) == 0
    assert capsys.readouterr().out == f"shop.yaml: ok, {RIGHT}\n"


def test_a_wrong_declaration_shows_its_problems_and_exits_with_2(declared: Declared, capsys: Captured) -> None:
    declared(("name: shop", "name: store")).rename("store.yaml")
    declared(("patience: 30m", "patience: 30"), ("root: orders", "root: ordes"))
    assert main(["check", "store.yaml", "shop.yaml"]) == 2
    assert capsys.readouterr().out == (
        f"store.yaml: ok, {RIGHT}\n"
        "shop.yaml:10: completeness.patience: found 30, expected a duration such as 30s, 15m, 2h or 7d. "
        "A number alone does not say its unit.\n"
        "shop.yaml:30: targets.aggregates[0].root: found 'ordes', expected a watched table. Did you mean 'orders'?\n"
        "shop.yaml: refused, 2 problems\n"
    )


def test_without_a_file_all_pipelines_are_checked(
    declared: Declared, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path.cwd()
    declared()
    declared().rename("again.yaml")
    declared()
    monkeypatch.setenv("TXLOOM_PIPELINES", str(folder))
    assert main(["check"]) == 2
    assert capsys.readouterr().out == (
        f"again.yaml: ok, {RIGHT}\n"
        "shop.yaml:1: name: found the name of again.yaml, expected a name that no other file has.\n"
        "shop.yaml: refused, 1 problem\n"
    )


def test_a_declaration_that_would_never_run_is_refused(declared: Declared, capsys: Captured) -> None:
    declared().rename("shop.yml")
    assert main(["check", "."]) == 2
    assert capsys.readouterr().out == (
        "shop.yml: found the ending .yml, expected .yaml. Nothing runs it as it is.\nshop.yml: refused, 1 problem\n"
    )


def test_a_folder_without_declarations_is_refused(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert capsys.readouterr().out == (
        f"{tmp_path}: found no declaration, expected at least one file NAME.yaml.\n{tmp_path}: refused, 1 problem\n"
    )


def test_the_schema_is_printed(capsys: Captured) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == schema_text()


def test_a_command_is_needed(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as exit_code:
        main([])
    assert exit_code.value.code == 2
    assert "required: COMMAND" in capsys.readouterr().err


def test_the_command_runs_as_a_module() -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "txloom.cli", "check", "include/pipelines/orders.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(root / "include")}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "include/pipelines/orders.yaml: ok, 6 tables, 1 aggregate, 6 mirrors, 4 expectations\n"
    assert done.returncode == 0
