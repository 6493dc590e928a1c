"""Write a producer's messages by hand, for tests that need a few of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable

from oracle.capture import Capture, Image
from oracle.declarations import TABLES


def row(op: str, table: str, at: tuple[int, int], before: Image | None = None, after: Image | None = None) -> str:
    """Return a row event at (csn, pos); the transaction is named for its csn."""
    csn, pos = at
    content = {"table": TABLES[table].source, "op_type": op, "pos": f"{pos:020}", "csn": str(csn), "xid": f"x{csn}"}
    images = {"before": _upper(before), "after": _upper(after)}
    return json.dumps({**content, **{name: image for name, image in images.items() if image is not None}})


def metadata(csn: int, **counts: int) -> str:
    """Return a transaction's metadata with the number of events per table."""
    parts = [{"data_collection": name.upper(), "event_count": count} for name, count in counts.items()]
    return json.dumps(
        {"xid": f"x{csn}", "csn": str(csn), "event_count": sum(counts.values()), "data_collections": parts}
    )


def heard(messages: Iterable[str]) -> Capture:
    """Return a capture of these messages."""
    capture = Capture()
    for message in messages:
        capture.take(message)
    return capture


def whole(events: Iterable[str]) -> Capture:
    """Return a capture of these row events, each transaction whole by metadata of its own."""
    rows = list(events)
    counts: dict[int, dict[str, int]] = {}
    for content in map(json.loads, rows):
        tables = counts.setdefault(int(content["csn"]), {})
        name = content["table"].split(".")[-1].lower()
        tables[name] = tables.get(name, 0) + 1
    return heard([*rows, *(metadata(csn, **tables) for csn, tables in counts.items())])


def _upper(image: Image | None) -> Image | None:
    return None if image is None else {column.upper(): value for column, value in image.items()}
