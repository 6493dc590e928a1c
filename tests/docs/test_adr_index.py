"""The index of the decision records names each of them, once, by its number and title."""

import re
from pathlib import Path

ADR = Path(__file__).resolve().parents[2] / "docs" / "adr"
LINE = re.compile(r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", re.MULTILINE)


def test_the_index_lists_every_decision_by_its_number_and_title() -> None:
    listed = LINE.findall((ADR / "README.md").read_text())
    records = sorted(ADR.glob("[0-9]*.md"))
    assert [f"# {number}. {title}" for number, title, _ in listed] == [
        record.read_text().splitlines()[0] for record in records
    ]
    assert [name for _, _, name in listed] == [record.name for record in records]


def test_numbers_of_decisions_follow_each_other() -> None:
    records = sorted(ADR.glob("[0-9]*.md"))
    assert [int(record.name.split("-")[0]) for record in records] == list(range(1, len(records) + 1))
