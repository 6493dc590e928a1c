"""The differences of two snapshots, worked out in plain Python: what a comparison of extracts is to find."""

from collections import Counter
from collections.abc import Mapping

from public.source import Key, Row, Source

Rows = Mapping[Key, Row]
Difference = tuple[str, Row | None, Row | None]


def difference(old: Rows, new: Rows) -> list[Difference]:
    """Return (operation, row before, row after) of every key that differs; keys and values count as they are typed."""
    gone = [("D", row, None) for key, row in old.items() if key not in new]
    changed = [("U", old[key], row) for key, row in new.items() if key in old and old[key] != row]
    return [*gone, *changed, *(("I", None, row) for key, row in new.items() if key not in old)]


def load(source: Source, name: str, rows: Rows, csn: int | None = None) -> Counter[str]:
    """Commit the differences between a table and a new snapshot of it as one transaction; return their operations."""
    difference_of = difference(source.rows[name], rows)
    for op, before, after in difference_of:
        source.change(name, op, before, after)
    source.commit(csn)
    return Counter(op for op, _, _ in difference_of)


def keyed(rows: list[Row], *key: str) -> dict[Key, Row]:
    """Return rows under their key."""
    return {tuple(row[column] for column in key): row for row in rows}
