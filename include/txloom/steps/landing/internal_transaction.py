"""Transactions that txloom writes itself: loaded snapshots, and what differs between snapshots.

Rows and metadata are written as GoldenGate writes them, under topics of their own, whatever the source's format is, and
from there go the way of every other transaction.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.events.formats import SourceDecoder
from txloom.storage.landing import change_events
from txloom.storage.sources.splits import LandingPlan, Task

BEHIND = 1 << 59
"""Positions of a snapshot's rows begin here: behind whatever the transaction with its csn holds, in 18 digits."""


@dataclass(frozen=True)
class InternalTransaction:
    """One transaction on its way into the stream; time: when it was committed, as its messages say it."""

    pipeline: Pipeline
    at: LandingPlan
    xid: str
    csn: int
    time: str | None

    def message(
        self, table: str, op: str, pos: int, *, before: bytes | None = None, after: bytes | None = None
    ) -> bytes:
        """Write one row event as the source would; before, after: images as JSON objects."""
        fields = {"table": self.pipeline.table(table).source, "op_type": op, "pos": str(pos), "xid": self.xid}
        fields |= {"csn": str(self.csn)} | ({"op_ts": self.time} if self.time else {})
        parts = [json.dumps(fields, separators=(",", ":")).encode()[:-1]]
        parts += [b',"before":' + before] if before is not None else []
        parts += [b',"after":' + after] if after is not None else []
        return b"".join([*parts, b"}"])

    def metadata(self, counts: Mapping[str, int], **more: Any) -> bytes:
        """Write the transaction's metadata, which counts rows by table; more: what else it is to tell."""
        parts = [
            {"data_collection": self.pipeline.table(table).source, "event_count": count}
            for table, count in counts.items()
        ]
        fields: dict[str, Any] = {"xid": self.xid, "csn": str(self.csn), "event_count": sum(counts.values())}
        fields |= {"tx_ts": self.time} if self.time else {}
        return json.dumps(fields | {"data_collections": parts} | more).encode()

    def truncates(self, tables: Iterable[str], pos: int, rows: Mapping[str, int]) -> pa.Table:
        """Return a truncate of each table, from a position on, and metadata that counts them and what rows follow."""
        truncated = list(tables)
        messages = [self.message(table, "T", pos + number) for number, table in enumerate(truncated)]
        line = len(messages) + 1
        first = self.landed(SourceDecoder(self.pipeline), messages, Task(0, names.LOAD, "", 0), range(1, line))
        counts = {table: rows.get(table, 0) + 1 for table in truncated}
        return pa.concat_tables([first, self.landed_metadata(counts, line)])

    def landed(self, decoder: SourceDecoder, messages: Sequence[bytes], task: Task, places: Sequence[int]) -> pa.Table:
        """Return messages of one topic as rows of change_events; places: their lines in the task's file."""
        return change_events.with_position(decoder.decode(task.topic, messages), task, places, self.at)

    def landed_metadata(self, counts: Mapping[str, int], line: int, **more: Any) -> pa.Table:
        """Return the metadata as a row of change_events; line: a place that no row has that was landed without file."""
        topic = names.LOAD_METADATA
        message = self.metadata(counts, **more)
        return self.landed(SourceDecoder(self.pipeline), [message], Task(0, topic, "", 0), [line])
