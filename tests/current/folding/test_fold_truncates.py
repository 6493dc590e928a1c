"""Truncates: what was there is gone, what comes later stays."""

import pytest

from current.texts import folded, shown


def test_a_truncate_removes_rows_that_no_change_names() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        2  Bob  1.2
        """,
        """
        op at  id name
        T  2.1 -  -
        """,
    ) == shown(
        """
        id name at  gone
        1  -    2.1 yes
        2  -    2.1 yes
        """
    )


def test_a_truncate_of_an_empty_table_has_no_effects() -> None:
    assert folded("id name at", "\nop at id name\nT 2.1 - -") == []


def test_rows_inserted_later_in_the_same_transaction_stay() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name
        I  2.3 2  stays
        T  2.2 -  -
        I  2.1 3  goes
        """,
    ) == shown(
        """
        id name  at  gone
        1  -     2.2 yes
        2  stays 2.3 -
        3  -     2.2 yes
        """
    )


def test_a_row_is_removed_by_the_first_truncate_after_it() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name
        T  2.1 -  -
        I  3.1 2  Bob
        T  4.1 -  -
        T  5.1 -  -
        """,
    ) == shown(
        """
        id name at  gone
        1  -    2.1 yes
        2  -    4.1 yes
        """
    )


def test_a_deleted_row_is_not_truncated_again() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name
        D  2.1 1  -
        T  3.1 -  -
        """,
    ) == shown(
        """
        id name at  gone
        1  -    2.1 yes
        """
    )


def test_a_truncate_that_the_rows_already_hold_is_skipped() -> None:
    assert folded(
        """
        id name at
        1  Ada  5.1
        2  old  1.1
        """,
        """
        op at  id name
        T  3.1 -  -
        """,
    ) == shown(
        """
        id name at  gone
        2  -    3.1 yes
        """
    )


@pytest.mark.parametrize("moved", ["2.1", "4.1"], ids=["before", "after"])
def test_moved_rows_are_truncated_like_others(moved: str) -> None:
    gone = moved == "2.1"
    assert folded(
        """
        id name at
        1  Ada  1.1
        3  Bob  1.2
        """,
        f"""
        op at      id name before
        U  {moved} 2  Eve  id=1
        T  3.1     -  -    -
        """,
    ) == shown(
        f"""
        id name {"        at    gone"}
        1  -    {moved} yes
        2  {"- 3.1 yes" if gone else f"Eve {moved} -"}
        3  -    3.1 yes
        """
    )


def test_a_truncate_ends_a_momentary_collision() -> None:
    assert folded(
        """
        id note at
        1  a    1.1
        2  b    1.2
        """,
        """
        op at  id note unchanged before
        U  2.1 2  -    note      id=1
        T  2.2 -  -    -         -
        U  2.3 3  -    note      id=2
        """,
    ) == shown(
        """
        id note at  gone missing
        1  -    2.1 yes  -
        2  -    2.3 yes  -
        3  -    2.3 -    note
        """
    )
