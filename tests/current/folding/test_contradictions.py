"""What changes tell of the row before them, held against the row: a contradiction is evidence."""

import json

import pytest

from current.texts import changes_of, rows_of
from txloom.current.folding.contradictions import DIFFERS, EXISTS, UNKNOWN
from txloom.current.folding.fold import fold

COLUMNS = ("id", "name", "note")
ROWS = """
    id name note at
    1  Ada  text 1.1
    2  Bob  -    1.2
"""


def evidence(changes: str, cleaned: int = 0) -> list[tuple[str, str | None, int]]:
    rows, read = rows_of(ROWS, COLUMNS), changes_of(changes, COLUMNS)
    effects = fold(rows, read, key=["id"], columns=COLUMNS, evidence=True, cleaned=cleaned)
    evidence = [json.loads(text) for text in effects.column("_txloom_evidence").drop_null().to_pylist()]
    return sorted((each["what"], each["column"], each["csn"]) for each in evidence)


@pytest.mark.parametrize(
    "changes",
    [
        "op at id name note before\nU 2.1 1 Eve text id=1,name=Ada,note=text",
        "op at id name note before\nU 2.1 1 Eve text id=1",
        "op at id name note before\nD 2.1 1 -   -    id=1,name=Ada,note=text",
        "op at id name note before\nU 2.1 1 Eve text id=1,name=Ada\nU 2.2 1 Fay text id=1,name=Eve",
        "op at id name note before\nD 2.1 1 - - id=1\nI 2.2 1 Ada text -",
        "op at id name note before\nT 2.1 - - - -\nI 2.2 1 Ada text -",
        "op at id name note before\nU 1.1 1 Eve text id=1,name=Other",
        "op at id name note before absent\nI 2.1 3 Cid - - note\nU 3.1 1 Ada new id=1,name=Ada -",
        "op at id name note before\nr 2.1 1 Eve text -\nr 3.1 1 Fay text -",
    ],
)
def test_what_agrees_with_the_row_is_no_evidence(changes: str) -> None:
    assert evidence(changes) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("op at id name note before\nU 2.1 1 Eve text id=1,name=Other", (DIFFERS, "name", 2)),
        ("op at id name note before\nU 2.1 2 Bob text id=2,note=filled", (DIFFERS, "note", 2)),
        ("op at id name note before\nD 2.1 1 - - id=1,note=other", (DIFFERS, "note", 2)),
        ("op at id name note before\nU 2.1 9 Eve text id=9,name=Eve", (UNKNOWN, None, 2)),
        ("op at id name note before\nT 2.1 - - - -\nU 3.1 1 Eve text id=1", (UNKNOWN, None, 3)),
        ("op at id name note before\nD 2.1 1 - - id=1\nD 3.1 1 - - id=1", (UNKNOWN, None, 3)),
        ("op at id name note before\nI 2.1 1 Ada text -", (EXISTS, None, 2)),
    ],
)
def test_what_contradicts_the_row_is_told_once_with_its_place(
    changes: str, expected: tuple[str, str | None, int]
) -> None:
    assert evidence(changes) == [expected]


def test_of_many_contradictions_the_first_of_each_kind_and_column_is_told() -> None:
    assert evidence(
        """
        op at  id name note before
        U  2.1 2  Bob  text id=2,note=other
        U  3.1 1  Eve  text id=1,name=Other
        I  3.2 9  Cid  -    -
        D  4.1 2  -    -    id=2,name=Other
        U  5.1 8  Eve  text id=8
        U  6.1 7  Eve  text id=7
        I  7.1 9  Cid  -    -
        """
    ) == [(UNKNOWN, None, 5), (EXISTS, None, 7), (DIFFERS, "name", 3), (DIFFERS, "note", 2)]


def test_a_value_told_before_a_column_went_is_held_against_its_row_all_the_same() -> None:
    changes = "op at id name note before absent\nU 2.1 1 Ada new id=1,note=other -\nI 3.1 3 Cid - - note"
    assert evidence(changes) == [(DIFFERS, "note", 2)]


CLEANED = """
op at  id name note before
U  2.1 8  Eve  text id=8
U  3.1 8  Fay  text id=8,name=Other
I  2.2 1  Ada  text -
U  4.1 8  Gus  text id=8,name=Eve
U  4.2 7  Eve  text id=7
"""


@pytest.mark.parametrize(
    ("cleaned", "expected"),
    [
        (0, [(UNKNOWN, None, 2), (EXISTS, None, 2)]),
        (2, [(UNKNOWN, None, 4), (DIFFERS, "name", 3)]),
        (3, [(UNKNOWN, None, 4), (DIFFERS, "name", 4)]),
        (4, []),
    ],
)
def test_changes_are_compared_only_above_the_csn_of_the_cleaning(
    cleaned: int, expected: list[tuple[str, str | None, int]]
) -> None:
    assert evidence(CLEANED, cleaned) == expected
