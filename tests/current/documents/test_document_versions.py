"""Intervals of documents whose lines move or go: each document shows what was its own at the time."""

from current.test_versions_public_cases import Change, documents

ORDERS: list[Change] = [("I", 1, 1, (1, "A")), ("I", 1, 2, (2, "B"))]


def test_a_line_that_moves_ends_an_interval_of_both_documents() -> None:
    lines: list[Change] = [("I", 1, 3, (101, 1, None)), ("U", 2, 4, (101, 2, None))]
    assert documents(ORDERS, lines) == ["A 101 1-2", "B  1-2", "A  2-", "B 101 2-"]


def test_a_line_that_leaves_its_document_for_none_ends_its_interval() -> None:
    lines: list[Change] = [("I", 1, 3, (101, 1, None)), ("U", 2, 4, (101, None, None))]
    assert documents(ORDERS, lines) == ["A 101 1-2", "B  1-", "A  2-"]


def test_lines_without_an_order_wait_for_it() -> None:
    lines: list[Change] = [("I", 1, 3, (101, 3, None))]
    assert documents([*ORDERS, ("I", 2, 4, (3, "C"))], lines) == ["A  1-", "B  1-", "C 101 2-"]


def test_a_document_that_comes_back_has_its_lines_again() -> None:
    lines: list[Change] = [("I", 1, 3, (101, 1, None))]
    orders: list[Change] = [*ORDERS[:1], ("D", 2, 4, (1, None)), ("I", 3, 5, (1, "C"))]
    assert documents(orders, lines) == ["A 101 1-2", "C 101 3-"]
