"""Files of rows (CSV, JSON lines, Parquet), read as JSON objects: change sets, and snapshots that are loaded."""

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.events.numbers import EXACT_DOUBLE

BATCH = 20_000
"""Rows that are read at once."""
BLOCK = 16 << 20
"""Bytes of CSV that are read at once; no row may be longer."""


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


def csv_rows(file: Path) -> Iterator[list[bytes]]:
    """Yield a CSV file's rows as JSON objects: values are text, an empty field without quotes is null."""
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


def parquet_rows(file: Path) -> Iterator[list[bytes]]:
    """Yield a Parquet file's rows as JSON objects: typed values become text of all their digits."""
    with pq.ParquetFile(file) as found:
        for batch in found.iter_batches(BATCH):
            yield from _rows(file, batch)


_READERS = {".csv": csv_rows, ".jsonl": _lines, ".json": _lines, ".parquet": parquet_rows}


def has_lines(name: str) -> bool:
    """Tell whether a file of rows has one row a line, by its name."""
    return Path(name.removesuffix(".gz")).suffix in (".jsonl", ".json")


def _rows(file: Path, batch: pa.RecordBatch) -> Iterator[list[bytes]]:
    names = batch.schema.names
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigurationError(f"{file}: column {name} stands in it {count} times")
    for start in range(0, batch.num_rows, BATCH):
        yield as_json(names, batch.slice(start, BATCH).columns)


def as_json(names: Sequence[str], columns: Sequence[pa.Array]) -> list[bytes]:
    """Return rows of typed values as JSON objects, as `txloom.events.images` reads them again without any loss."""
    texts = [_texts(column) for column in columns]
    return [msgspec.json.encode(dict(zip(names, row, strict=True))) for row in zip(*texts, strict=True)]


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
    if isinstance(value, float):
        return repr(value) if abs(value) < EXACT_DOUBLE else f"{value:.16e}"
    if isinstance(value, dict):
        return msgspec.json.encode({name: _text(own) for name, own in value.items()}).decode()
    return [_text(each) for each in value] if isinstance(value, list | tuple) else str(value)
