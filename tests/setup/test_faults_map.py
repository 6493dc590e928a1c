"""docs/faults.md names tests that exist."""

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def test_every_test_that_the_list_of_faults_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (PROJECT / "docs" / "faults.md").read_text())
    assert len(named) > 30
    gone = [f"{file}::{test}" for file, test in named if f"def {test}(" not in (PROJECT / "tests" / file).read_text()]
    assert gone == []
