"""Documents composed of columns are those that plain Python composes one by one."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from current.texts import table, value
from drawn import examples
from txloom.current.documents.child_counts import count_column
from txloom.current.documents.compose import STAMP, Member, compose, documents

Row = dict[str, Any]
LINES = Member("lines", "many", ("line",), ("id",), ("line", "item"))
DETAILS = Member("details", "one", ("name",), ("id",), ("name", "note"))
STAMPS = [("_txloom_csn", pa.int64()), ("_txloom_pos", pa.int64()), ("_txloom_xid", pa.string())]


def by_definition(
    touched: Iterable[tuple[Any, ...]],
    roots: Sequence[Row],
    key: Sequence[str],
    columns: Sequence[str],
    children: Sequence[tuple[Member, Sequence[Row]]],
) -> list[Row]:
    """Compose documents one by one."""
    composed = list[Row]()
    for document in touched:
        known_roots = [row for row in roots if tuple(row[name] for name in key) == document]
        whole: Row = dict.fromkeys(columns) | dict(zip(key, document, strict=True))
        rows_of = list(known_roots)
        for member, rows in children:
            below = [row for row in rows if tuple(row[name] for name in member.parent_key) == document]
            below.sort(key=lambda row, member=member: tuple(row[name] for name in member.key))  # type: ignore[misc]
            images = [{name: row[name] for name in member.columns} for row in below]
            whole[member.field] = images if member.relation == "many" else (images or [None])[-1]
            whole |= {count_column(member.field): len(images) if known_roots else 0} if member.relation == "one" else {}
            rows_of += below
        stamp: tuple[Any, ...] = (None, None, None)
        if known_roots:
            whole |= {name: known_roots[0][name] for name in columns}
            stamp = max(tuple(row[name] for name in STAMP) for row in rows_of)
        else:
            whole |= {member.field: None for member, _ in children}
        composed.append({**whole, **dict(zip(STAMP, stamp, strict=True)), "_txloom_deleted": not known_roots})
    return composed


def rows(text: str, stamp: int = 1) -> pa.Table:
    """Read rows, all with one stamp."""
    stamps = {"_txloom_csn": 1, "_txloom_pos": stamp, "_txloom_xid": "x1"}
    read = [{name: value(name, cell) for name, cell in line.items()} | stamps for line in table(text)]
    return pa.Table.from_pylist(read)


def plain(composed: pa.Table) -> list[Row]:
    """Return documents without their stamps."""
    return composed.drop_columns([*STAMP]).to_pylist()


def test_a_root_carries_its_children_in_the_order_of_their_key() -> None:
    orders = rows("id name\n2 Bob\n1 Ada")
    lines = rows("id line item\n1 10 pen\n1 9 cup\n2 1 hat")
    details = rows("id name note\n1 d express")
    assert plain(documents(orders, [(LINES, lines), (DETAILS, details)], ["id"], ["id", "name"])) == [
        {"id": 2, "name": "Bob", "lines": [{"line": 1, "item": "hat"}], "details": None},
        {
            "id": 1,
            "name": "Ada",
            "lines": [{"line": 9, "item": "cup"}, {"line": 10, "item": "pen"}],
            "details": {"name": "d", "note": "express"},
        },
    ]


def test_a_root_without_children_has_an_empty_list_and_no_one() -> None:
    lines, details = rows("id line item\n7 1 pen").slice(0, 0), rows("id name note\n7 d x").slice(0, 0)
    composed = documents(rows("id name\n1 Ada"), [(LINES, lines), (DETAILS, details)], ["id"], ["id"])
    assert plain(composed) == [{"id": 1, "lines": [], "details": None}]


def test_a_child_without_a_root_is_in_no_document() -> None:
    orphans = rows("id line item\n7 1 pen\n- 2 cup", stamp=9)
    known = documents(rows("id name\n1 Ada"), [(LINES, orphans)], ["id"], ["id"])
    assert known.to_pylist() == [{"id": 1, "lines": [], "_txloom_csn": 1, "_txloom_pos": 1, "_txloom_xid": "x1"}]
    gone = compose(pa.table({"id": [7]}), rows("id name\n1 Ada"), [(LINES, orphans)], ["id"], ["id", "name"])
    nothing = dict.fromkeys(["name", "lines", *STAMP])
    assert gone.to_pylist() == [{"id": 7, **nothing, "_txloom_deleted": True}]


def test_of_several_one_children_the_last_by_key_stands() -> None:
    details = rows("id name note\n1 b second\n1 a first")
    composed = documents(rows("id name\n1 Ada"), [(DETAILS, details)], ["id"], ["id"])
    assert composed.column("details").to_pylist() == [{"name": "b", "note": "second"}]


KEYS = st.tuples(st.integers(0, 3), st.sampled_from(["", "a", "b", "\u00fc"]))
STAMPED = st.tuples(st.integers(1, 3), st.integers(0, 3), st.sampled_from(["x", "y", "\u00fc"]))


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(KEYS, unique=True),
    st.dictionaries(KEYS, STAMPED),
    st.dictionaries(st.tuples(KEYS, st.integers(0, 3)), STAMPED),
    st.dictionaries(st.tuples(KEYS, st.integers(0, 2)), STAMPED),
    st.booleans(),
)
def test_documents_are_what_they_are_by_definition(
    touched: list[tuple[int, str]], orders: Any, lines: Any, notes: Any, is_composite: bool
) -> None:
    key = ["k", "l"] if is_composite else ["k"]
    if not is_composite:
        touched = list(dict.fromkeys((k, "") for k, _ in touched))
        orders = {(k, ""): stamp for (k, _), stamp in orders.items()}
    parent = [("k", pa.int64()), ("l", pa.string())]
    members = (
        Member("lines", "many", (*key, "line"), tuple(key), ("line", *key)),
        Member("note", "one", ("line", "l", "k"), tuple(key), ("k", "line")),
    )
    root_rows = [dict(zip(["k", "l", *STAMP], [*each, *stamp], strict=True)) for each, stamp in orders.items()]
    child_rows = [
        [
            dict(zip(["k", "l", "line", *STAMP], [*each, line, *stamp], strict=True))
            for (each, line), stamp in of.items()
        ]
        for of in (lines, notes)
    ]
    if not is_composite:
        child_rows = [list({(row["k"], row["line"]): row for row in of}.values()) for of in child_rows]
    keys = [each[: len(key)] for each in touched]
    composed = compose(
        pa.Table.from_pylist([dict(zip(key, each, strict=True)) for each in keys], pa.schema(parent[: len(key)])),
        pa.Table.from_pylist(root_rows, pa.schema([*parent, *STAMPS])),
        [
            (member, pa.Table.from_pylist(of, pa.schema([*parent, ("line", pa.int64()), *STAMPS])))
            for member, of in zip(members, child_rows, strict=True)
        ],
        key,
        key,
    )
    assert composed.to_pylist() == by_definition(keys, root_rows, key, key, list(zip(members, child_rows, strict=True)))
