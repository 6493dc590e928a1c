"""Order entry: an order's total is the sum of its lines and nothing hangs below an order that is not there, ever."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from oracle import capture, comparison, values
from oracle.capture import Message
from oracle.completeness import progress
from oracle.declarations import ORDER
from oracle.state import Source
from txloom.config import find
from workloads.core import Core, Rows

SOURCE = "The shipped sample (include/sample): a real load of order entry, which keeps both at every commit"
PIECES = 4
"""Into so many landings each arrival is cut beside being taken whole."""
Row = Mapping[str, Any]
Shown = Mapping[str, Mapping[Any, Row]]


def unequal(shown: Shown) -> list[Any]:
    """Return the orders whose total_amount is not the sum of their item_amount."""
    amounts: dict[Any, Decimal] = defaultdict(Decimal)
    for line in shown["order_line_items"].values():
        amounts[line["order_id"],] += line["item_amount"] or 0
    return [key for key, order in shown["orders"].items() if order["total_amount"] != amounts[key]]


def orphans(shown: Shown) -> list[tuple[str, Any]]:
    """Return the children whose order is not there."""
    return [
        (child.table, key)
        for child in ORDER.children
        for key, row in shown[child.table].items()
        if tuple(row[column] for column in child.parent_key) not in shown["orders"]
    ]


def in_pieces(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Cut an arrival; its topics come one after the other, the metadata last, in commit order."""
    size = -(-len(messages) // PIECES)
    return [messages[start : start + size] for start in range(0, len(messages), size)]


@dataclass(frozen=True)
class Landed:
    """A core after all landings, and valid-through and what was shown after each."""

    core: Core
    shown: list[tuple[int, Rows]]


def landed(landings: Iterable[Sequence[Message]]) -> Landed:
    pipeline = find("orders")
    patient = pipeline.completeness.model_copy(update={"patience": timedelta(days=30)})
    core = Core(pipeline.model_copy(update={"completeness": patient}))
    landed_rows = []
    for messages in landings:
        core.run(messages)
        assert core.balanced()
        landed_rows.append((core.valid_through, core.shown()))
    return Landed(core, landed_rows)


@pytest.fixture(scope="module")
def arrivals() -> list[list[Message]]:
    return [list(capture.messages(folder)) for folder in capture.arrivals()]


@pytest.fixture(scope="module")
def whole(arrivals: list[list[Message]]) -> Landed:
    return landed(arrivals)


@pytest.fixture(scope="module")
def cut(arrivals: list[list[Message]]) -> Landed:
    return landed(piece for messages in arrivals for piece in in_pieces(messages))


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(capture.read(capture.arrivals()))


@pytest.mark.parametrize("broken", [unequal, orphans])
@pytest.mark.parametrize("name", ["whole", "cut"])
def test_it_holds_after_every_landing(
    name: str, broken: Callable[[Shown], list[Any]], request: pytest.FixtureRequest
) -> None:
    for csn, shown in request.getfixturevalue(name).shown:
        assert broken(shown) == [], f"as of {csn}"


def test_the_states_after_the_arrivals_are_those_of_the_source(whole: Landed, source: Source) -> None:
    assert [csn for csn, _ in whole.shown] == [step.valid_through for step in progress(capture.arrivals())]
    for csn, shown in whole.shown:
        true_state: dict[str, Any] = dict(values.typed_state(source.state_as_of(csn)))
        true_state["orders_current"] = values.typed_documents(source.documents_as_of(csn))
        differences = comparison.differences(true_state, shown)
        assert not differences, f"as of {csn}: {comparison.report(differences)}"


def test_smaller_landings_show_more_states_and_end_in_the_same(whole: Landed, cut: Landed) -> None:
    assert len({csn for csn, _ in cut.shown}) >= len({csn for csn, _ in whole.shown}) >= 5
    assert cut.shown[-1] == whole.shown[-1]


def test_documents_hold_it_at_every_commit(whole: Landed) -> None:
    """Every interval of every document: whatever commit one asks for, it is one of these that shows an order."""
    intervals = whole.core.document_intervals()
    assert len(intervals) > len(whole.core.shown()["orders_current"])
    for document in intervals:
        amounts = [line["item_amount"] or Decimal(0) for line in document["line_items"]]
        assert document["total_amount"] == sum(amounts), (document["order_id"], document["_txloom_valid_from"])


def test_every_child_has_its_order_at_every_commit(whole: Landed) -> None:
    """Of each child's row, whatever interval it has lies within intervals of its order."""
    orders: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for row in whole.core.intervals("orders", untracked=[c for c in NAMES["orders"] if c != "order_id"]):
        orders[row["order_id"],].append(span(row))
    for child in ORDER.children:
        free = [column for column in NAMES[child.table] if column not in child.parent_key]
        for row in whole.core.intervals(child.table, untracked=free):
            parent = tuple(row[column] for column in child.parent_key)
            begin, end = span(row)
            assert any(since <= begin and end <= until for since, until in orders[parent]), (child.table, row)


NAMES = {table.name: table.column_names for table in find("orders").tables}


def span(row: Row) -> tuple[int, int]:
    return row["_txloom_valid_from"], row["_txloom_valid_to"] or 2**62


@pytest.mark.parametrize(("table", "broken"), [("order_line_items", unequal), ("orders", orphans)])
def test_one_missing_row_is_seen(whole: Landed, table: str, broken: Callable[[Shown], list[Any]]) -> None:
    _, shown = whole.shown[-1]
    key = next(line["order_id"] for line in shown["order_line_items"].values() if line["item_amount"])
    torn = {each: row for each, row in shown[table].items() if row["order_id"] != key}
    assert broken({**shown, table: torn})
