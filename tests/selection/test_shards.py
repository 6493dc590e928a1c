"""Shards of the long tests: each long test belongs to exactly one shard."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from selection.shards import LONGEST, chosen_shard, is_in_shard

TESTS = Path(__file__).parents[1]
FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))


@pytest.mark.parametrize("shards", [1, 3, 4])
def test_every_file_is_in_one_shard(shards: int) -> None:
    assert FILES
    assert [sum(is_in_shard(file, shard, shards) for shard in range(shards)) for file in FILES] == [1] * len(FILES)


def test_no_shard_of_four_has_most_of_the_long_files() -> None:
    sizes = [sum(is_in_shard(file, shard, 4) for file in FILES) for shard in range(4)]
    assert max(sizes) <= len(FILES) * 0.3, sizes


def test_each_shard_of_four_plays_one_file_in_a_real_airflow() -> None:
    assert [sum(is_in_shard(file, shard, 4) for file in LONGEST[-4:]) for shard in range(4)] == [1] * 4


def test_the_longest_files_exist() -> None:
    assert set(LONGEST) <= set(FILES)


@pytest.mark.parametrize(("text", "expected"), [("1/4", (0, 4)), ("4/4", (3, 4)), ("", None)])
def test_a_shard_is_named_by_its_number(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: tuple[int, int] | None
) -> None:
    monkeypatch.setenv("TXLOOM_SHARD", text)
    assert chosen_shard() == expected


@pytest.mark.parametrize("text", ["0/4", "5/4", "2", "a/b", "1/0", "-1/4"])
def test_what_names_no_shard_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TXLOOM_SHARD", text)
    with pytest.raises(ValueError, match="expected K/N"):
        chosen_shard()


@pytest.mark.parametrize(("shard", "expected"), [("1/2", 5), ("2/2", 0)])
def test_a_run_passes_without_a_test_only_if_other_shards_have_them_all(shard: str, expected: int) -> None:
    """`make lived` runs four files; most shards of eight have none of them."""
    only_long = LONGEST[-2]
    assert is_in_shard(only_long, 0, 2)
    ran = run_pytest(shard, f"tests/{only_long}", "-k", "no_test_has_this_name" if shard == "1/2" else "test_")
    assert ran.returncode == expected, ran.stdout


def test_a_run_of_one_shard_leaves_out_the_long_tests_of_the_other() -> None:
    runs = [collected(f"{shard}/2") for shard in (1, 2)]
    everything = collected("")
    assert runs[0] | runs[1] == everything
    assert collected("", "-m", "not long") == runs[0] & runs[1] < everything


def collected(shard: str, *arguments: str) -> set[str]:
    """Return the ids of the tests that a run of a shard collects from two files; each file has long tests."""
    files = ["tests/terminal/test_dry_run.py", "tests/steps/test_schema_drift.py"]
    ran = run_pytest(shard, *files, *arguments)
    assert ran.returncode == 0, ran.stdout
    return {line for line in ran.stdout.splitlines() if "::" in line}


def run_pytest(shard: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Let pytest collect the tests of a shard."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", *arguments],
        cwd=TESTS.parent,
        env={**os.environ, "TXLOOM_SHARD": shard},
        capture_output=True,
        text=True,
        check=False,
    )
