"""GoldenGate's JSON: a message a row under a topic a table, and metadata that counts them."""

import json
from collections import Counter
from collections.abc import Sequence
from decimal import Context, Decimal
from random import Random
from typing import Any

from oracle.capture import Image, Message
from oracle.declarations import Table
from workloads.sources.database import Change, Sent
from workloads.sources.json_text import Bare, written
from workloads.sources.kinds import printed
from workloads.sources.shapes import Shape

METADATA = "metadata"
UNWATCHED = Table("other", "APP.OTHER", ("id",), {"id": "long"})
EXACT = Context(prec=60)
NUMBERS = ("long", "int", "decimal")


class GoldenGate:
    """Writes transactions as GoldenGate's handler does; images are whole or sparse, numbers are numbers or text."""

    source, rule, layout = f"format: goldengate, transaction_topic: {METADATA}", "counts", ""
    truncates, alters, rotates, special = "any", True, True, True
    moves_serials = True

    def __init__(self, shape: Shape, chance: Random) -> None:
        self._chance = chance
        self._pos = 0
        self._bare = shape.dimensions.wide_values and chance.random() < 0.5

    def write(self, sent: Sent) -> None:
        """Give a transaction a message a row, now and then one of a table that nobody watches, and its metadata."""
        xid = sent.xid = f"{self._chance.randint(1, 99)}.{sent.number}"
        sent.rows = [self._message(xid, sent.csn, change) for change in sent.changes]
        if self._chance.random() < 0.2:
            after: Image = {"id": "1"}
            sent.rows.append(self._message(xid, sent.csn, Change(UNWATCHED, "I", None, after, ("id",))))
        counts = Counter(json.loads(message)["table"].rsplit(".", 1)[-1] for _, message in sent.rows)
        content: dict[str, Any] = {"xid": xid, "csn": str(sent.csn), "event_count": sum(counts.values())}
        if counts or self._chance.random() < 0.5:
            content["data_collections"] = [
                {"data_collection": name, "event_count": count} for name, count in counts.items()
            ]
        sent.metadata = (METADATA, json.dumps(content))

    def history(self, changes: Sequence[Change]) -> int:
        """Return how many rows of history changes are."""
        return len(changes)

    def _message(self, xid: str, csn: int, change: Change) -> Message:
        self._pos += self._chance.randint(1, 3)
        table = change.table
        content: dict[str, Any] = {"table": table.source, "op_type": change.op, "pos": f"{self._pos:020}"}
        content |= {"xid": xid, "csn": str(csn)}
        for name, image in zip(("before", "after"), self._images(change), strict=True):
            if image is not None:
                content[name] = {column.upper(): self._value(table, column, image[column]) for column in image}
        return f"rows.{table.name}", written(content, ascii_only=self._chance.random() < 0.5)

    def _value(self, table: Table, column: str, value: str | None) -> str | None:
        kind = table.columns[column].split("(")[0]
        if value is None or not self._bare or kind not in NUMBERS:
            return None if value is None else printed(kind, value)
        if kind == "decimal" and self._chance.random() < 0.3:
            value = str(Decimal(value).normalize(EXACT))
        return Bare(value)

    def _images(self, change: Change) -> tuple[Image | None, Image | None]:
        """Return what a change tells: whole or sparse images, but a key that changes is told with its old one."""
        before, after = change.before, change.after
        if before is None or after is None:
            if before is None:
                return None, None if after is None else change.image(after)
            return change.image(before) if self._chance.random() < 0.5 else change.key(before), None
        whole, key = change.image(before), change.key(before)
        old = self._chance.choice((whole, key) if change.moves else (whole, key, None))
        new = change.image(after)
        if self._chance.random() < 0.5:
            return old, new
        return old, {name: value for name, value in new.items() if name in key or value != before[name]}
