"""Changes folded into current rows: one fact a test."""

import pytest

from current.texts import change_schema, changes_of, folded, row_schema, rows_of, shown
from txloom.current.folding.fold import fold

NOTHING = "id name at"


def test_an_insert_creates_a_row() -> None:
    assert folded(
        NOTHING,
        """
        op at  id name
        I  1.1 1  Ada
        """,
    ) == shown(
        """
        id name at
        1  Ada  1.1
        """
    )


def test_a_row_that_nothing_touched_is_not_listed() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        2  Bob  1.2
        """,
        """
        op at  id name
        U  2.1 2  Ben
        """,
    ) == shown(
        """
        id name at
        2  Ben  2.1
        """
    )


def test_no_changes_give_no_effects() -> None:
    assert folded("id name at\n1 Ada 1.1", "\nop at id name") == []


def test_a_delete_leaves_the_key_and_nothing_else() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name
        D  2.1 1  Ada
        """,
    ) == shown(
        """
        id name at  gone
        1  -    2.1 yes
        """
    )


def test_a_delete_that_lists_unchanged_columns_leaves_nothing_either() -> None:
    assert folded(
        """
        id name at
        1  Ada  1.1
        """,
        """
        op at  id name unchanged
        D  2.1 1  -    name
        """,
    ) == shown(
        """
        id name at  gone
        1  -    2.1 yes
        """
    )


def test_a_delete_that_finds_nothing_is_listed_as_gone() -> None:
    assert folded(
        NOTHING,
        """
        op at  id name
        D  2.1 1  -
        """,
    ) == shown(
        """
        id name at  gone
        1  -    2.1 yes
        """
    )


def test_an_insert_over_an_existing_row_replaces_it() -> None:
    assert folded(
        """
        id name note at
        1  Ada  old  1.1
        """,
        """
        op at  id name note
        I  2.1 1  Eve  -
        """,
    ) == shown(
        """
        id name note at
        1  Eve  -    2.1
        """
    )


def test_the_last_change_by_number_wins_however_they_arrive() -> None:
    assert folded(
        NOTHING,
        """
        op at    id name
        U  10.1  1  ten
        U  9.12  1  nine-twelve
        I  9.2   1  nine-two
        """,
    ) == shown(
        """
        id name at
        1  ten  10.1
        """
    )


def test_a_row_changed_several_times_in_one_transaction_shows_the_last_state() -> None:
    assert folded(
        NOTHING,
        """
        op at   id name
        U  1.10 1  c
        U  1.9  1  b
        I  1.1  1  a
        """,
    ) == shown(
        """
        id name at
        1  c    1.10
        """
    )


def test_a_change_that_the_row_already_holds_is_skipped() -> None:
    assert (
        folded(
            """
        id name at
        1  Ada  5.2
        """,
            """
        op at  id name
        U  5.2 1  Ada
        U  5.1 1  Abe
        D  4.1 1  -
        """,
        )
        == []
    )


def test_a_late_update_does_not_overwrite_a_newer_one() -> None:
    assert folded(
        """
        id name at
        1  new  5.1
        2  old  1.1
        """,
        """
        op at  id name
        U  3.1 1  late
        U  3.2 2  late
        """,
    ) == shown(
        """
        id name at
        2  late 3.2
        """
    )


def test_a_duplicate_counts_once() -> None:
    assert folded(
        """
        id name at
        1  A    1.1
        2  B    1.2
        """,
        """
        op at  id name before
        U  2.1 2  A    id=1
        U  2.1 2  A    id=1
        U  2.2 1  B    id=2
        U  2.2 1  B    id=2
        """,
    ) == shown(
        """
        id name at
        1  B    2.2
        2  A    2.2
        """
    )


@pytest.mark.parametrize("second", ["1.3", "2.1"], ids=["in_one_transaction", "in_two_transactions"])
def test_a_deleted_row_can_be_inserted_again(second: str) -> None:
    assert folded(
        """
        id name note at
        1  Ada  old  0.1
        """,
        f"""
        op at       id name note
        I  {second} 1  Eve  -
        D  1.2      1  -    -
        """,
    ) == shown(
        f"""
        id name note at
        1  Eve  -    {second}
        """
    )


def test_initial_rows_are_inserts() -> None:
    assert folded(
        NOTHING,
        """
        op at  id name
        r  5.0 1  first
        r  5.1 2  loaded
        U  5.2 2  changed
        """,
    ) == shown(
        """
        id name    at
        1  first   5.0
        2  changed 5.2
        """
    )


def test_keys_of_several_columns_are_compared_column_by_column() -> None:
    assert folded(
        "id line name at\n1 12 x 1.1\n11 2 y 1.2",
        """
        op at  id line name before
        U  2.1 1  12   z    -
        U  2.2 11 3    y    id=11,line=2
        """,
        key=("id", "line"),
    ) == shown(
        """
        id line name at  gone
        1  12   z    2.1 -
        11 2    -    2.2 yes
        11 3    y    2.2 -
        """
    )


def test_keys_of_several_columns_with_the_same_values_in_another_order_are_different() -> None:
    assert folded(
        """
        id line name at
        1  1    a    1.1
        1  2    b    1.2
        2  1    c    1.3
        """,
        """
        op at  id line name
        U  2.1 2  1    z
        U  2.2 1  2    y
        """,
        key=("id", "line"),
    ) == shown(
        """
        id line name at
        1  2    y    2.2
        2  1    z    2.1
        """
    )


def test_an_unknown_operation_is_refused() -> None:
    columns = ["id", "name"]
    changes = changes_of("op at id name\nX 1.1 1 a\nI 1.2 2 b", columns)
    with pytest.raises(
        ValueError, match=r"unknown operations \['X'\], expected one of \['I', 'r', 'U', 'D', 'T', 'C'\]"
    ):
        fold(row_schema(columns).empty_table(), changes, key=["id"], columns=columns)


def test_a_change_without_its_key_is_refused() -> None:
    columns = ["id", "name"]
    changes = changes_of("op at id name\nT 1.1 - -\nD 1.2 - a", columns)
    with pytest.raises(ValueError, match=r"changes without a key \(id\) cannot be folded"):
        fold(row_schema(columns).empty_table(), changes, key=["id"], columns=columns)


def test_a_change_without_its_place_is_refused() -> None:
    columns = ["id"]
    changes = changes_of("op at id\nI 1.1 1", columns)
    changes = changes.set_column(changes.schema.get_field_index("_txloom_pos"), "_txloom_pos", [[None]])
    with pytest.raises(ValueError, match="_txloom_pos is null in 1 rows or changes: without it they have no order"):
        fold(row_schema(columns).empty_table(), changes, key=["id"], columns=columns)


def test_tables_without_a_single_batch_are_folded_too() -> None:
    columns = ["id", "name"]
    rows, changes = row_schema(columns), change_schema(row_schema(columns), columns)
    nothing = fold(rows.empty_table(), changes.empty_table(), key=["id"], columns=columns)
    assert nothing.num_rows == 0
    assert nothing.schema.names == [*rows.names, "_txloom_deleted", "_txloom_missing"]


def test_rows_alone_have_no_effects() -> None:
    columns = ["id", "name"]
    rows = rows_of("id name at\n1 Ada 1.1", columns)
    changes = change_schema(rows.schema, columns).empty_table()
    assert fold(rows, changes, key=["id"], columns=columns).num_rows == 0
