"""An aggregate's documents: what belongs to which, and where children go when their root's key changes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from current.texts import table, value
from txloom.current.compose import Member, compose
from txloom.current.documents import Key, Move, documents, implied_moves, move

LINES = Member("lines", "many", ("line",), ("id",), ("line", "item"))
DETAILS = Member("details", "one", ("name",), ("id",), ("name", "note"))


def rows(text: str) -> list[dict[str, Any]]:
    return [{name: value(name, cell) for name, cell in line.items()} for line in table(text)]


def test_a_root_carries_its_children_in_the_order_of_their_key() -> None:
    orders = rows("id name\n2 Bob\n1 Ada")
    lines = rows("id line item\n1 10 pen\n1 9 cup\n2 1 hat")
    details = rows("id name note\n1 d express")
    assert documents(orders, ["id"], [(LINES, lines), (DETAILS, details)]) == [
        {
            "id": 1,
            "name": "Ada",
            "lines": [{"line": 9, "item": "cup"}, {"line": 10, "item": "pen"}],
            "details": {"name": "d", "note": "express"},
        },
        {"id": 2, "name": "Bob", "lines": [{"line": 1, "item": "hat"}], "details": None},
    ]


def test_a_root_without_children_has_an_empty_list_and_no_one() -> None:
    assert documents([{"id": 1}], ["id"], [(LINES, []), (DETAILS, [])]) == [{"id": 1, "lines": [], "details": None}]


def test_a_child_without_a_root_is_in_no_document() -> None:
    orphans = rows("id line item\n7 1 pen\n- 2 cup")
    assert documents([{"id": 1}], ["id"], [(LINES, orphans)]) == [{"id": 1, "lines": []}]
    assert documents([], ["id"], [(LINES, orphans)]) == []


def test_of_several_one_children_the_last_by_key_stands() -> None:
    details = rows("id name note\n1 b second\n1 a first")
    assert documents([{"id": 1}], ["id"], [(DETAILS, details)])[0]["details"] == {"name": "b", "note": "second"}


def test_a_composed_document_is_the_document_by_definition() -> None:
    stamps = [{"_txloom_csn": 1, "_txloom_pos": pos, "_txloom_xid": "x1"} for pos in range(9)]
    orders = [row | stamps[i] for i, row in enumerate(rows("id name\n1 Ada\n2 Bob\n3 Eve"))]
    lines = [row | stamps[5] for row in rows("id line item\n1 2 pen\n1 1 cup\n4 1 hat")]
    details = [row | stamps[6] for row in rows("id name note\n2 d express")]
    roots = {(order["id"],): order for order in orders}
    children = {"lines": (LINES, lines), "details": (DETAILS, details)}
    composed = compose([(2,), (1,), (4,)], roots, children, ["id"], ["id", "name"])
    plain = [{name: row[name] for name in ("id", "name")} for row in orders]
    by_key = {row["id"]: row for row in documents(plain, ["id"], list(children.values()))}
    assert composed == [
        by_key[2] | stamps[6] | {"_txloom_deleted": False},
        by_key[1] | stamps[5] | {"_txloom_deleted": False},
        {"id": 4, "_txloom_deleted": True},
    ]


def test_children_go_where_their_roots_go() -> None:
    moves = implied_moves([(9, 1, ("b",), ("c",)), (10, 1, ("c",), ("d",)), (2, 1, ("a",), ("b",))])
    assert move(("a",), (1, 1), moves) == ("d",)
    assert move(("z",), (1, 1), moves) == ("z",)


def test_an_event_of_the_childs_own_overrules_earlier_moves() -> None:
    moves = implied_moves([(2, 5, ("a",), ("b",))])
    assert move(("a",), (2, 4), moves) == ("b",)
    assert [move(("a",), (2, pos), moves) for pos in (5, 6)] == [("a",), ("a",)]


def test_roots_that_swap_keys_over_a_third_swap_their_children() -> None:
    moves = implied_moves([(2, 1, (1,), (9,)), (2, 2, (2,), (1,)), (2, 3, (9,), (2,))])
    assert [move((key,), (1, 1), moves) for key in (1, 2)] == [(2,), (1,)]


MOVES = st.lists(st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 3)), st.tuples(st.integers(0, 3))), max_size=8)


@given(MOVES, st.tuples(st.integers(0, 3)), st.integers(0, 8))
def test_resolving_in_steps_is_resolving_at_once(steps: list[tuple[int, Key, Key]], parent: Key, cut: int) -> None:
    numbered: list[Move] = [(csn, pos, old, new) for pos, (csn, old, new) in enumerate(steps)]
    moves = implied_moves(reversed(numbered))
    middle = moves[:cut][-1][:2] if moves[:cut] else (-1, 0)
    assert move(move(parent, (-1, 0), moves[:cut]), middle, moves) == move(parent, (-1, 0), moves)
