"""Inserts without a column: it is null in every row from then on, and nothing of it comes back."""

from current.texts import changes_of, folded, shown
from txloom.current.folding.column_nulling import Gone, columns_of, of_all_rows


def test_an_insert_without_a_column_clears_it_in_rows_that_no_change_names() -> None:
    assert folded(
        """
        id name note at
        1  Ada  old  1.1
        2  Bob  -    1.2
        """,
        """
        op at  id name note absent
        I  2.1 3  Cid  -    note
        """,
    ) == shown(
        """
        id name note at
        1  Ada  -    2.1
        3  Cid  -    2.1
        """
    )


def test_a_column_that_comes_back_shows_nothing_of_what_it_held() -> None:
    """Not to a row that leaves it unchanged either; what is told after the clear stays."""
    assert folded(
        """
        id name note at
        1  Ada  old  1.1
        2  Bob  old  1.2
        3  Cid  old  1.3
        """,
        """
        op at  id name note unchanged absent
        I  2.1 4  Dot  -    -         note
        U  3.1 1  Eve  -    note      -
        U  3.2 2  Bob  new  -         -
        I  3.3 5  Fay  new  -         -
        """,
    ) == shown(
        """
        id name note at
        1  Eve  -    3.1
        2  Bob  new  3.2
        3  Cid  -    2.1
        4  Dot  -    2.1
        5  Fay  new  3.3
        """
    )


def test_who_folds_some_keys_only_sees_what_the_last_insert_of_a_transaction_clears() -> None:
    changes = changes_of(
        """
        op at  id name note unchanged absent
        I  2.1 3  Cid  -    -         note
        U  2.2 1  Ada  new  -         -
        I  2.3 4  Dot  -    -         note
        I  3.1 5  Eve  -    -         note
        """,
        ("id", "name", "note"),
    )
    clears = of_all_rows(changes).select(["_txloom_op", "_txloom_csn", "_txloom_pos"]).to_pylist()
    assert sorted(tuple(each.values()) for each in clears) == [("C", 2, 1), ("C", 2, 3), ("C", 3, 1)]


def test_a_row_that_changes_its_key_loses_the_column_too() -> None:
    assert folded(
        """
        id name note at
        1  Ada  old  1.1
        """,
        """
        op at  id name note unchanged before absent
        U  2.1 2  Ada  -    note      id=1   -
        I  3.1 3  Bob  -    -         -      note
        U  4.1 4  Ada  -    note      id=2   -
        """,
    ) == shown(
        """
        id name note at  gone
        1  -    -    2.1 yes
        2  -    -    4.1 yes
        3  Bob  -    3.1
        4  Ada  -    4.1
        """
    )


COLUMNS = ("id", "name", "note")
GONE = """
    op at  id name note absent
    I  2.1 1  Ada  -    note
    I  3.1 2  Bob  new  -
    I  4.1 3  Cid  -    note
    I  5.1 4  Dot  -    note
"""


def test_columns_are_followed_in_commit_order() -> None:
    collected = columns_of(changes_of(GONE, COLUMNS), {})
    assert (collected.gone, collected.clearing, list(collected.flapping)) == (
        {"note": Gone(4, 1, "x4")},
        ["note"],
        ["note"],
    )


def test_a_column_that_is_known_to_be_gone_takes_nothing_away_again() -> None:
    gone = {"note": Gone(1, 1, "x1")}
    lacking = changes_of("op at id name note absent\nI 2.1 1 Ada - note", COLUMNS)
    assert columns_of(lacking, gone).clearing == []
    back = changes_of("op at id name note\nU 2.1 1 Ada new", COLUMNS)
    assert columns_of(back, gone).gone == {}
