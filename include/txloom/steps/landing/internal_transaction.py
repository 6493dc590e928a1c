"""Transactions that txloom writes itself: loaded snapshots, and the differences between extracts and tables.

Their rows and metadata are written in GoldenGate's layout, under separate topics, whatever the source's format is,
and are then processed like those of every other transaction.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyArray
from txloom.config import names
from txloom.config.models.pipeline import Pipeline, Table
from txloom.events.envelope import ENVELOPE
from txloom.events.formats import SourceDecoder
from txloom.events.images import typed_rows
from txloom.events.images.reader import ImageReader
from txloom.events.values.text import read_instants
from txloom.storage.landing import change_events
from txloom.storage.sources.splits import LandingPlan, Task

REPAIR = f"{names.SYSTEM_PREFIX}repair:"
"""The prefix of the ids of transactions that load the rows which an audit found to differ."""


@dataclass(frozen=True)
class InternalTransaction:
    """One transaction that txloom writes.

    Args:
        pipeline: the declaration.
        at: its landing.
        xid: its id.
        csn: its position in the commit order.
        time: when it was committed, as its messages have it; None: unknown.
    """

    pipeline: Pipeline
    at: LandingPlan
    xid: str
    csn: int
    time: str | None

    def message(
        self, table: str, op: str, pos: int, *, before: bytes | None = None, after: bytes | None = None
    ) -> bytes:
        """Return one row event as a message in GoldenGate's layout.

        Args:
            table: the declared name of the table.
            op: the operation: I, U, D, T, or r for a loaded row.
            pos: its position within the transaction.
            before: the image before as a JSON object; None: none.
            after: the image after likewise.
        """
        fields = {"table": self.pipeline.table(table).source, "op_type": op, "pos": str(pos), "xid": self.xid}
        fields |= {"csn": str(self.csn)} | ({"op_ts": self.time} if self.time else {})
        parts = [json.dumps(fields, separators=(",", ":")).encode()[:-1]]
        parts += [b',"before":' + before] if before is not None else []
        parts += [b',"after":' + after] if after is not None else []
        return b"".join([*parts, b"}"])

    def loaded(self, table: Table, images: pa.StringArray, task: Task, first: int, pos: int) -> pa.Table:
        """Return loaded rows as rows of change_events, as `landed` returns their messages.

        Args:
            table: their table.
            images: the rows as JSON objects, of which every value fits its column.
            task: the input split that they are of.
            first: the line of the first row.
            pos: its position within the transaction.
        """
        size = len(images)
        places = pa.array(np.arange(pos, pos + size), pa.int64())
        head, tail = self.message(table.name, "r", 0).decode().removesuffix("}").split('"pos":"0"', maxsplit=1)
        texts = places.cast(pa.string())
        message: list[AnyArray | str] = [f'{head}"pos":"', texts, f'"{tail},"after":', images, "}"]
        columns: dict[str, AnyArray] = {
            "ordinal": pa.array(np.arange(size, dtype=np.int32)),
            "kind": pa.repeat("row", size),
            "transaction_id": pa.repeat(f"{self.xid}:{self.csn}", size),
            "xid": pa.repeat(self.xid, size),
            "csn": pa.repeat(pa.scalar(self.csn, pa.int64()), size),
            "pos": places,
            "source_table": pa.repeat(table.source, size),
            "table": pa.repeat(table.name, size),
            "op": pa.repeat("r", size),
            "identity": texts,
            "committed_at": pa.repeat(read_instants(pa.array([self.time], pa.string()))[0], size),
            "value": typed_rows.joined(message),
            **typed_rows.content("r", images),
        }
        events = [columns[each.name] if each.name in columns else pa.nulls(size, each.type) for each in ENVELOPE]
        envelope = pa.Table.from_arrays(events, schema=ENVELOPE)
        return change_events.with_position(envelope, task, range(first, first + size), self.at)

    def metadata(self, counts: Mapping[str, int], **more: Any) -> bytes:
        """Return the transaction's metadata as a message.

        Args:
            counts: row events by table.
            **more: further members of the message.
        """
        parts = [
            {"data_collection": self.pipeline.table(table).source, "event_count": count}
            for table, count in counts.items()
        ]
        fields: dict[str, Any] = {"xid": self.xid, "csn": str(self.csn), "event_count": sum(counts.values())}
        fields |= {"tx_ts": self.time} if self.time else {}
        return json.dumps(fields | {"data_collections": parts} | more).encode()

    def truncates(self, tables: Iterable[str], pos: int, rows: Mapping[str, int], line: int = 1) -> pa.Table:
        """Return a truncate of each table, and the metadata, as rows of change_events.

        Args:
            tables: the tables.
            pos: the position of the first truncate.
            rows: by table, how many rows follow, which the metadata counts too.
            line: the line of the first truncate.
        """
        truncated = list(tables)
        messages = [self.message(table, "T", pos + number) for number, table in enumerate(truncated)]
        last = line + len(messages)
        first = self.landed(SourceDecoder(self.pipeline), messages, Task(0, names.LOAD, "", 0), range(line, last))
        counts = {table: rows.get(table, 0) + 1 for table in truncated}
        return pa.concat_tables([first, self.landed_metadata(counts, last)])

    def landed(self, decoder: SourceDecoder, messages: Sequence[bytes], task: Task, lines: Sequence[int]) -> pa.Table:
        """Return messages of one topic as rows of change_events.

        Args:
            decoder: of the pipeline.
            messages: the messages.
            task: the input split that they are of.
            lines: the line of each in the input split.
        """
        return change_events.with_position(decoder.decode(task.topic, messages), task, lines, self.at)

    def problems(self, events: pa.Table, reader: ImageReader, messages: Sequence[bytes]) -> dict[int, str]:
        """Return why rows cannot be read, by their number among the messages; none are as the declaration says.

        Args:
            events: what `landed` returned for the messages.
            reader: of the table that they are of.
            messages: the messages.
        """
        texts = reader.read(messages).column("problem").to_pylist()
        problems = {number: text for number, text in enumerate(texts) if text is not None}
        bad = events.filter(pc.equal(events.column("kind"), pa.scalar("poison"))).to_pylist()
        first = events.column("line")[0].as_py() if bad else 0
        return problems | {row["line"] - first: f"{row['cause']}: {row['detail']}" for row in bad}

    def landed_metadata(self, counts: Mapping[str, int], line: int, **more: Any) -> pa.Table:
        """Return the metadata as a row of change_events.

        Args:
            counts: row events by table.
            line: its line; no row that was landed without a file may have the same.
            **more: further members of the message.
        """
        topic = names.LOAD_METADATA
        message = self.metadata(counts, **more)
        return self.landed(SourceDecoder(self.pipeline), [message], Task(0, topic, "", 0), [line])
