"""An aggregate's documents: what belongs to which, composed one by one and, for reference, all at once."""

from collections.abc import Iterable, Sequence
from typing import Any

from current.texts import table, value
from txloom.current.documents.compose import Member, RowValues, by_parent, compose, key_of, nested

LINES = Member("lines", "many", ("line",), ("id",), ("line", "item"))
DETAILS = Member("details", "one", ("name",), ("id",), ("name", "note"))


def documents(
    roots: Iterable[RowValues], key: Sequence[str], children: Sequence[tuple[Member, Sequence[RowValues]]]
) -> list[RowValues]:
    """Nest children in their roots, ordered by the root's key; a child without a root is in no document."""
    gathered = [(member, by_parent(member, rows)) for member, rows in children]
    return [
        root | {member.field: nested(member, by_key.get(key_of(root, key), [])) for member, by_key in gathered}
        for root in sorted(roots, key=lambda root: key_of(root, key))
    ]


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
