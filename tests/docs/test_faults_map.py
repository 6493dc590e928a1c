"""docs/faults.md has every fault that a pipeline must survive, and it and docs/examination.md name tests that exist."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
FAULTS, FINDINGS = 50, 52
CITED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows(document: str) -> list[list[str]]:
    """Return the cells of each row of a document's tables that begins with numbers, or with none."""
    lines = (DOCS / document).read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [each for each in cells if re.fullmatch(r"[\d, ]*", each[0])]


def numbers(document: str) -> set[int]:
    return {int(number) for row in rows(document) for number in re.findall(r"\d+", row[0])}


@pytest.mark.parametrize("document", ["faults.md", "examination.md"])
def test_every_test_that_a_document_names_exists(document: str) -> None:
    named = CITED.findall((DOCS / document).read_text())
    assert named
    gone = [f"{file}::{test}" for file, test in named if f"def {test}(" not in (PROJECT / "tests" / file).read_text()]
    assert gone == []


def test_every_fault_has_its_number_and_tests_or_the_reason_why_there_is_none() -> None:
    assert numbers("faults.md") == set(range(1, FAULTS + 1))
    bare = [row[0] for row in rows("faults.md") if ".py" not in row[-1] and not row[-1].startswith("no test: ")]
    assert bare == []


def test_every_finding_of_the_examination_has_one_row() -> None:
    numbers = [row[0] for row in rows("examination.md")]
    assert numbers == [str(number) for number in range(1, FINDINGS + 1)]


def test_faults_that_make_test_leaves_out_are_said_to_be() -> None:
    left_out = re.search(r"^LIVED = (.*)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert left_out
    said = (DOCS / "faults.md").read_text().split("| # |")[0]
    assert [file for file in left_out[1].split() if file.removeprefix("tests/") not in said] == []
