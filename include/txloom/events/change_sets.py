"""Change sets: rows of one table's folder, each with a flag (I, U or D), a timestamp, its key and its values.

There are no transactions: every row stands alone, ordered by its timestamp, to the microsecond, and by its place in the
file where timestamps are equal; several changes of one key in a set are normal. I and U tell the whole row, of D
only the key counts. A row of the very same content and timestamp is a redelivery and counts once, wherever it stands.

Flag and timestamp are no columns of the table, unless the table declares them.
"""

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from txloom.config.models import Table
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.events import causes
from txloom.events.change_events import (
    Headers,
    Image,
    Poison,
    WatchedTables,
    alone,
    check,
    envelope,
    moment,
    refuse_twins,
    sources_of_key,
    written,
)
from txloom.events.image_messages import text_of

FLAGS = frozenset("IUD")
FLAG, TIMESTAMP = "FLAG", "CDC_TIMESTAMP"
BATCH = 20_000
"""Rows that are read at once."""
BLOCK = 16 << 20
"""Bytes of CSV that are read at once; no row may be longer."""


class ChangeSetDecoder:
    """Decodes rows of change sets; compiled for its declared tables, so it does not travel between processes."""

    def __init__(
        self,
        tables: Sequence[Table],
        flag: str = FLAG,
        timestamp: str = TIMESTAMP,
        ignored: Sequence[str] | None = None,
    ) -> None:
        """Learn the watched tables and what flag and timestamp are called; ignored: see `WatchedTables`."""
        self._tables = WatchedTables(tables, ignored)
        self._flag, self._timestamp = flag, timestamp
        self._own = {table.name: ChangeSetImages(table, flag, timestamp) for table in tables}
        self._row = msgspec.json.Decoder(Image).decode
        self._told: dict[str, Counter[bytes]] = {}

    def decode(
        self,
        topic: str,
        values: Sequence[bytes | None],
        headers: Headers | None = None,  # noqa: ARG002
        first: int = 1,
    ) -> pa.Table:
        """Decode rows of one folder's file, in order; what is no change comes out as poison with its cause.

        first: the place of the first row in its file. A row that stands in its file again, with all its values, is a
        change of its own, such as the last of 10, 11, 10 within a second.
        """
        if first == 1:
            self._told[topic] = Counter()
        return envelope(partial(self._read, topic), values, first)

    def _read(self, topic: str, value: bytes) -> dict[str, Any]:
        row = self._row(value)
        table = self._tables.find(topic)
        op = self._operation(row)
        if table is not None:
            refuse_twins("the row", row)
            check(table, op, *self._own[table.name].images(row, op))
        at = _named(row, self._timestamp)
        if at is None:
            raise Poison(causes.NO_CSN, f"{self._timestamp} is missing")
        csn, committed_at = moment(self._timestamp, at)
        name = topic if table is None else table.name
        content = msgspec.json.encode(sorted(row.items()))
        told = self._told.setdefault(topic, Counter())
        told[content] += 1
        return {
            **alone(name, csn, content if told[content] == 1 else content + str(told[content]).encode()),
            "committed_at": committed_at,
            "source_table": topic,
            "table": table and table.name,
            "op": op,
            "expected": table and [(table.name, 1)],
        }

    def _operation(self, row: Image) -> str:
        told = _named(row, self._flag)
        text = None if told is None else text_of(told)
        op = (text or "").strip().upper()
        if op not in FLAGS:
            raise Poison(causes.OPERATION, f"{self._flag} is {'missing' if told is None else repr(text)}")
        return op


class ChangeSetImages:
    """Writes rows of one table as `txloom.events.images` reads them; compiled, so it does not travel."""

    def __init__(self, table: Table, flag: str = FLAG, timestamp: str = TIMESTAMP) -> None:
        """Learn a declared table's columns, and what flag and timestamp are called."""
        self._key = sources_of_key(table)
        self._aside = {flag.upper(), timestamp.upper()} - {column.source.upper() for column in table.columns}
        self._row = msgspec.json.Decoder(Image).decode

    def canonical(self, values: Sequence[str], ops: Sequence[str], headers: Headers) -> list[bytes]:  # noqa: ARG002
        """Return rows in GoldenGate's layout; ops: what the envelope says of each."""
        return [written(op, *self.images(self._row(value), op)) for value, op in zip(values, ops, strict=True)]

    def images(self, row: Image, op: str) -> tuple[Image | None, Image | None]:
        """Return what a row tells of itself before and after the change."""
        if op == "D":
            return {name: raw for name, raw in row.items() if name.upper() in self._key}, None
        return None, {name: raw for name, raw in row.items() if name.upper() not in self._aside}


def rows_as_json(path: str | Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (number of the first row, rows as JSON objects) of a change set, in batches; rows count from 1.

    What stands in .jsonl and .json, one row a line, is handed on as it is, for the decoder to judge. Values of .csv
    are text, and an empty field without quotes is null; typed values of .parquet become text of all their digits. Each
    but .parquet may end in .gz. Raises ConfigurationError for a file that is not what its name says, and
    SourceUnavailable for one that cannot be read, or not yet to its end.
    """
    file, number = Path(path), 1
    reading = _READERS.get(Path(file.name.removesuffix(".gz")).suffix)
    if reading is None:
        raise ConfigurationError(f"{file}: expected a change set that ends in {', '.join(_READERS)}")
    try:
        for batch in reading(file):
            yield number, batch
            number += len(batch)
    except pa.ArrowInvalid as error:
        raise ConfigurationError(f"{file}: no {file.suffix} behind row {number - 1}: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise SourceUnavailable(f"{file}: cannot be read behind row {number - 1}: {error}") from error


def _named(row: Image, name: str) -> msgspec.Raw | None:
    return next((raw for own, raw in row.items() if own.upper() == name.upper()), None)


def _lines(file: Path) -> Iterator[list[bytes]]:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        held: list[bytes] = []
        for line in stream:
            held.append(line.rstrip(b"\r\n"))
            if len(held) == BATCH:
                yield held
                held = []
        if held:
            yield held


def _csv(file: Path) -> Iterator[list[bytes]]:
    compression = "gzip" if file.suffix == ".gz" else None
    options = {
        "parse_options": csv.ParseOptions(newlines_in_values=True),
        "read_options": csv.ReadOptions(block_size=BLOCK),
    }
    with pa.input_stream(str(file), compression=compression) as stream:
        names = csv.open_csv(stream, **options).schema.names
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with pa.input_stream(str(file), compression=compression) as stream:
        for batch in csv.open_csv(stream, convert_options=convert, **options):
            yield from _rows(file, batch)


def _parquet(file: Path) -> Iterator[list[bytes]]:
    with pq.ParquetFile(file) as found:
        for batch in found.iter_batches(BATCH):
            yield from _rows(file, batch)


_READERS = {".csv": _csv, ".jsonl": _lines, ".json": _lines, ".parquet": _parquet}


def _rows(file: Path, batch: pa.RecordBatch) -> Iterator[list[bytes]]:
    names = batch.schema.names
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigurationError(f"{file}: column {name} stands in it {count} times")
    for start in range(0, batch.num_rows, BATCH):
        columns = [_texts(column) for column in batch.slice(start, BATCH).columns]
        yield [msgspec.json.encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _texts(column: pa.Array) -> list[Any]:
    """Return a column's values as JSON takes them: text of all their digits, in UTC where they have a zone."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
        column = column.cast(pa.string())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        elements = iter(_texts(column.flatten()))
        sizes = pc.list_value_length(column).to_pylist()
        return [None if size is None else [next(elements) for _ in range(size)] for size in sizes]
    return [_text(value) for value in column.to_pylist()]


def _text(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dict):
        return msgspec.json.encode({name: _text(own) for name, own in value.items()}).decode()
    return [_text(each) for each in value] if isinstance(value, list | tuple) else str(value)
