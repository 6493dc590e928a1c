"""Updates that change the key: rows wander, keys do not mix."""

from current.texts import folded, shown


def test_a_key_change_removes_the_old_key_and_creates_the_new_one() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name before
        U  2.1 7  Ada  id=1
        """,
    ) == shown(
        """
        id name at  gone
        1  -    2.1 yes
        7  Ada  2.1 -
        """
    )


def test_unchanged_columns_come_from_the_row_of_the_old_key() -> None:
    assert folded(
        """
        id name note  at
        1  Ada  one   1.1
        7  Bob  seven 1.2
        """,
        """
        op at  id name note unchanged before
        D  2.1 7  -    -    -         id=7
        U  2.2 7  Ada  -    note      id=1
        """,
    ) == shown(
        """
        id name note at  gone
        1  -    -    2.2 yes
        7  Ada  one  2.2 -
        """
    )


def test_unchanged_columns_are_those_of_the_moment() -> None:
    assert folded(
        """
        id name note at
        1  Ada  old  1.1
        """,
        """
        op at  id name note  unchanged before
        U  2.3 1  Eve  later -         -
        U  2.2 7  Ada  -     note      id=1
        U  2.1 1  Ada  then  -         -
        """,
    ) == shown(
        """
        id name note  at
        1  Eve  later 2.3
        7  Ada  then  2.2
        """
    )


def test_the_same_key_before_and_after_is_no_key_change() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name before
        U  2.1 1  Eve  id=1
        """,
    ) == shown(
        """
        id name at
        1  Eve  2.1
        """
    )


def test_only_an_update_changes_a_key() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name before
        I  2.1 2  Bob  id=1
        D  2.2 3  -    id=1
        """,
    ) == shown(
        """
        id name at  gone
        2  Bob  2.1 -
        3  -    2.2 yes
        """
    )


def test_an_update_that_does_not_know_its_old_key_updates_the_new_one() -> None:
    assert folded(
        """
        id name note at
        1  Ada  one  1.1
        """,
        """
        op at  id name note unchanged before
        U  2.1 1  Eve  -    note      name=Ada
        """,
    ) == shown(
        """
        id name note at
        1  Eve  one  2.1
        """
    )


def test_a_part_of_a_key_that_an_image_before_leaves_out_is_the_one_after_it() -> None:
    """A source that tells only what changed tells no other part of the key; the old row must go."""
    assert folded(
        "id line name at\n1 1 x 1.1",
        """
        op at  id line name before
        U  2.1 1  2    y    line=1
        """,
        key=("id", "line"),
    ) == shown(
        """
        id line name at  gone
        1  1    -    2.1 yes
        1  2    y    2.1 -
        """
    )


def test_a_chain_leaves_only_its_last_key() -> None:
    assert folded(
        """
        id name note at
        1  Ada  kept 1.1
        """,
        """
        op at  id name note unchanged before
        U  3.1 3  c    -    note      id=2
        U  2.1 2  b    -    note      id=1
        """,
    ) == shown(
        """
        id name note at  gone
        1  -    -    2.1 yes
        2  -    -    3.1 yes
        3  c    kept 3.1 -
        """
    )


def test_a_chain_may_end_where_it_began() -> None:
    assert folded(
        """
        id name note at
        1  Ada  kept 1.1
        """,
        """
        op at  id name note unchanged before
        U  2.1 2  b    -    note      id=1
        U  2.2 1  a    -    note      id=2
        """,
    ) == shown(
        """
        id name note at  gone
        1  a    kept 2.2 -
        2  -    -    2.2 yes
        """
    )


def test_a_moved_row_can_be_deleted_and_its_old_key_inserted_again() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name before
        U  2.1 2  Ada  id=1
        D  2.2 2  -    id=2
        I  2.3 1  Eve  -
        """,
    ) == shown(
        """
        id name at  gone
        1  Eve  2.3 -
        2  -    2.2 yes
        """
    )


def test_rows_swap_keys_over_a_third() -> None:
    assert folded(
        """
        id name note at
        1  A    a    1.1
        2  B    b    1.2
        """,
        """
        op at  id name note unchanged before
        U  2.1 9  A    -    note      id=1
        U  2.2 1  B    -    note      id=2
        U  2.3 2  A    -    note      id=9
        """,
    ) == shown(
        """
        id name note at  gone
        1  B    b    2.2 -
        2  A    a    2.3 -
        9  -    -    2.3 yes
        """
    )


def test_rows_that_swap_keys_directly_both_survive() -> None:
    assert folded(
        """
        id name note at
        1  A    a    1.1
        2  B    b    1.2
        """,
        """
        op at  id name note unchanged before
        U  2.1 2  A    -    note      id=1
        U  2.2 1  B    -    note      id=2
        """,
    ) == shown(
        """
        id name note at
        1  B    b    2.2
        2  A    a    2.2
        """
    )


def test_keys_that_all_move_on_by_one_keep_their_rows() -> None:
    assert folded(
        """
        id note at
        1  a    1.1
        2  b    1.2
        3  c    1.3
        """,
        """
        op at  id note unchanged before
        U  2.1 2  -    note      id=1
        U  2.2 3  -    note      id=2
        U  2.3 4  -    note      id=3
        """,
    ) == shown(
        """
        id note at  gone
        1  -    2.1 yes
        2  a    2.2 -
        3  b    2.3 -
        4  c    2.3 -
        """
    )


def test_rows_leave_a_shared_key_in_the_order_in_which_they_came() -> None:
    assert folded(
        """
        id note at
        1  a    1.1
        2  b    1.2
        3  c    1.3
        """,
        """
        op at  id note unchanged before
        U  2.1 2  -    note      id=1
        U  2.2 2  -    note      id=3
        U  2.3 5  -    note      id=2
        U  2.4 6  -    note      id=2
        """,
    ) == shown(
        """
        id note at  gone
        1  -    2.1 yes
        2  c    2.4 -
        3  -    2.2 yes
        5  b    2.3 -
        6  a    2.4 -
        """
    )


def test_a_delete_at_a_shared_key_removes_the_row_that_was_there_first() -> None:
    assert folded(
        """
        id note at
        1  a    1.1
        2  b    1.2
        """,
        """
        op at  id note unchanged before
        U  2.1 2  -    note      id=1
        D  2.2 2  -    -         id=2
        """,
    ) == shown(
        """
        id note at  gone
        1  -    2.1 yes
        2  a    2.2 -
        """
    )


def test_an_update_at_a_shared_key_changes_the_row_that_was_there_first() -> None:
    assert folded(
        """
        id name note at
        1  A    a    1.1
        2  B    b    1.2
        """,
        """
        op at  id name note unchanged before
        U  2.1 2  A    -    note      id=1
        U  2.2 2  BB   -    note      id=2
        U  2.3 1  -    -    name,note id=2
        """,
    ) == shown(
        """
        id name note at
        1  BB   b    2.3
        2  A    a    2.3
        """
    )


def test_after_the_transaction_only_the_row_that_came_last_keeps_a_shared_key() -> None:
    assert folded(
        """
        id note at
        1  a    1.1
        2  b    1.2
        """,
        """
        op at  id note unchanged before
        U  2.1 2  -    note      id=1
        U  3.1 5  -    note      id=2
        """,
    ) == shown(
        """
        id note at  gone
        1  -    2.1 yes
        2  -    3.1 yes
        5  a    3.1 -
        """
    )


def test_an_insert_at_a_shared_key_replaces_all_that_stands_there() -> None:
    assert folded(
        """
        id note at
        1  a    1.1
        2  b    1.2
        """,
        """
        op at  id note unchanged before
        U  2.1 2  -    note      id=1
        I  2.2 2  new  -         -
        U  2.3 3  -    note      id=2
        """,
    ) == shown(
        """
        id note at  gone
        1  -    2.1 yes
        2  -    2.3 yes
        3  new  2.3 -
        """
    )


def test_a_key_change_of_no_row_creates_it_and_reports_what_it_lacks() -> None:
    assert folded(
        "id name note text at",
        """
        op at  id name note text unchanged before
        U  2.1 2  Ada  -    -    note,text id=1,text=kept
        """,
    ) == shown(
        """
        id name note text at  gone missing
        1  -    -    -    2.1 yes  -
        2  Ada  -    kept 2.1 -    note
        """
    )


def test_what_is_missing_moves_with_the_row() -> None:
    assert folded(
        "id name note at",
        """
        op at  id name note unchanged before
        U  2.1 2  Ada  -    note      id=1
        U  3.1 3  Eve  -    note      id=2
        """,
    ) == shown(
        """
        id name note at  gone missing
        1  -    -    2.1 yes  -
        2  -    -    3.1 yes  -
        3  Eve  -    3.1 -    note
        """
    )


def test_a_key_change_that_both_rows_already_hold_is_skipped() -> None:
    assert folded(
        """
        id name at
        1  new  5.1
        2  Ada  2.1
        """,
        """
        op at  id name before
        U  2.1 2  Ada  id=1
        """,
    ) == shown("id name at")


def test_a_late_key_change_leaves_newer_rows_alone_and_does_not_read_them() -> None:
    assert folded(
        """
        id name note at
        1  new  x    5.1
        """,
        """
        op at  id name note unchanged before
        U  2.1 2  Ada  -    note      id=1
        """,
    ) == shown(
        """
        id name note at  gone missing
        2  Ada  -    2.1 -    note
        """
    )
