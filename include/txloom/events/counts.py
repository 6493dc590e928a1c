"""The counts in a transaction's metadata, for all formats that count events: how many events each watched table has.

Counts decide when a transaction is whole, so a message whose counts contradict each other is poison.
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
    """Return how many events each watched table has.

    Args:
        collections: The counts by table; None where the metadata has none.
        total: The count of all tables, None where the metadata has none. It may be larger than the sum of the
            collections, since it also counts tables without a collection.
        watched: Returns the declared table of a name in the metadata, None for an unwatched one.

    Raises:
        Poison: Counts are missing, not numbers, or contradict each other.
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
