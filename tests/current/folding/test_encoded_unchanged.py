"""Sparse updates: columns that an update leaves out keep their value."""

from current.texts import folded, shown


def test_an_unchanged_column_keeps_the_rows_value() -> None:
    assert folded(
        """
        id name note at
        1  Ada  long 1.1
        """,
        """
        op at  id name note unchanged
        U  2.1 1  Eve  -    note
        """,
    ) == shown(
        """
        id name note at
        1  Eve  long 2.1
        """
    )


def test_each_column_comes_from_the_last_change_that_told_it() -> None:
    assert folded(
        """
        id name note text at
        1  a    b    c    1.1
        """,
        """
        op at  id name note text unchanged
        U  2.1 1  a2   -    -    note,text
        U  3.1 1  -    b3   -    name,text
        U  4.1 1  -    -    -    name,note,text
        """,
    ) == shown(
        """
        id name note text at
        1  a2   b3   c    4.1
        """
    )


def test_null_is_a_value_and_not_unchanged() -> None:
    assert folded(
        """
        id name note at
        1  Ada  long 1.1
        """,
        """
        op at  id name note unchanged
        U  2.1 1  Ada  -    -
        U  3.1 1  Eve  -    note
        """,
    ) == shown(
        """
        id name note at
        1  Eve  -    3.1
        """
    )


def test_an_update_of_no_row_creates_it_when_it_is_complete() -> None:
    assert folded(
        "id name at",
        """
        op at  id name
        U  2.1 1  Ada
        """,
    ) == shown(
        """
        id name at
        1  Ada  2.1
        """
    )


def test_a_sparse_update_of_no_row_creates_it_and_reports_what_it_lacks() -> None:
    assert folded(
        "id name note text at",
        """
        op at  id name note text unchanged
        U  2.1 1  Ada  -    -    text,note
        """,
    ) == shown(
        """
        id name note text at  gone missing
        1  Ada  -    -    2.1 -    note,text
        """
    )


def test_what_is_missing_stays_reported_until_a_change_tells_it() -> None:
    assert folded(
        "id name note text at",
        """
        op at  id name note text unchanged
        U  2.1 1  Ada  -    -    text,note
        U  2.2 1  Eve  told -    text
        """,
    ) == shown(
        """
        id name note text at  gone missing
        1  Eve  told -    2.2 -    text
        """
    )


def test_without_a_row_the_image_before_tells_what_is_unchanged() -> None:
    assert folded(
        "id name note text at",
        """
        op at  id name note text unchanged before
        U  2.1 1  Ada  -    -    text,note id=1,text=kept
        """,
    ) == shown(
        """
        id name note text at  gone missing
        1  Ada  -    kept 2.1 -    note
        """
    )


def test_the_row_counts_more_than_the_image_before() -> None:
    assert folded(
        """
        id name note at
        1  Ada  row  1.1
        """,
        """
        op at  id name note unchanged before
        U  2.1 1  Eve  -    note      id=1,note=image
        """,
    ) == shown(
        """
        id name note at
        1  Eve  row  2.1
        """
    )


def test_a_sparse_update_after_a_delete_does_not_see_the_deleted_row() -> None:
    assert folded(
        """
        id name note at
        1  Ada  old  1.1
        """,
        """
        op at  id name note unchanged
        D  2.1 1  -    -    -
        U  3.1 1  Eve  -    note
        """,
    ) == shown(
        """
        id name note at  gone missing
        1  Eve  -    3.1 -    note
        """
    )


def test_a_sparse_update_after_an_insert_sees_the_new_row_only() -> None:
    assert folded(
        """
        id name note at
        1  Ada  old  1.1
        """,
        """
        op at  id name note unchanged
        I  2.1 1  Bob  -    -
        U  3.1 1  Eve  -    note
        """,
    ) == shown(
        """
        id name note at
        1  Eve  -    3.1
        """
    )


def test_a_sparse_update_after_a_truncate_does_not_see_the_row_before_it() -> None:
    assert folded(
        """
        id name note at
        1  Ada  old  1.1
        """,
        """
        op at  id name note unchanged
        T  2.1 -  -    -    -
        U  3.1 1  Eve  -    note
        """,
    ) == shown(
        """
        id name note at  gone missing
        1  Eve  -    3.1 -    note
        """
    )


def test_a_key_column_that_an_update_leaves_out_is_the_one_before() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name unchanged before
        U  2.1 -  Eve  id        id=1
        """,
    ) == shown(
        """
        id name at
        1  Eve  2.1
        """
    )


def test_undeclared_columns_may_be_unchanged() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name unchanged
        U  2.1 1  Eve  secret
        """,
    ) == shown(
        """
        id name at
        1  Eve  2.1
        """
    )


def test_an_insert_takes_nothing_from_the_row_that_it_replaces() -> None:
    assert folded(
        """
        id name note at
        1  Ada  old  1.1
        2  Bob  old  1.2
        """,
        """
        op at  id name note unchanged before
        I  2.1 1  Eve  -    note      -
        I  2.2 2  Ben  -    note      -
        U  2.3 3  Ben  -    note      id=2
        """,
    ) == shown(
        """
        id name note at  gone missing
        1  Eve  -    2.1 -    note
        2  -    -    2.3 yes  -
        3  Ben  -    2.3 -    note
        """
    )
