"""How many events a transaction's metadata says that each watched table has, in the words of all formats that count.

Counts decide when a transaction is whole, so counts that contradict themselves decide nothing: their message is poison.
"""

from collections.abc import Callable, Sequence

from txloom.events import rejections
from txloom.events.malformed import LARGEST, Poison, shown, unsigned

Number = str | int | None
Collection = tuple[str, Number]
"""The name of a table as metadata writes it, and its count."""


def expected_counts(
    collections: Sequence[Collection] | None, total: Number, watched: Callable[[str], str | None]
) -> dict[str, int]:
    """Return how many events each watched table has; raises Poison for counts that contradict themselves.

    collections: None where the metadata names none. total: of all tables, None where it does not say. It may be larger
    than the sum of the collections, since it counts what no collection is named for.
    """
    events = None if total is None else _count(total, "event_count is")
    if collections is None and events is None:
        raise Poison(rejections.NO_METADATA, "the message has neither `event_count` nor `data_collections`")
    if collections is None and events:
        raise Poison(rejections.COUNTS, f"event_count is {events}, and there are no data_collections")
    expected: dict[str, int] = {}
    together = 0
    for name, number in collections or ():
        count = _count(number, f"{shown(name)} has", " events")
        together += count
        table = watched(name)
        if table in expected:
            raise Poison(rejections.COUNTS, f"{shown(name)} is counted twice: {expected[table]} and {count} events")
        if table is not None:
            expected[table] = count
    if together > (LARGEST if events is None else events):
        raise Poison(rejections.COUNTS, f"data_collections have {together} events, and event_count is {events}")
    return expected


def _count(number: Number, before: str, behind: str = "") -> int:
    count = unsigned(number)
    if count is None:
        raise Poison(rejections.COUNTS, f"{before} {shown(number)}{behind}")
    return count
