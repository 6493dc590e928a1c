"""Files of rows (CSV, JSON lines, Parquet), read as JSON objects: change sets, and snapshots that are loaded."""

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.events.values.numbers import EXACT_DOUBLE

BATCH = 20_000
"""Rows of a batch."""
BLOCK = 16 << 20
"""Bytes of CSV that are parsed in one block; no row may be longer."""


def rows_as_json(path: str | Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (number of the first row, rows as JSON objects) of a change set, in batches; rows count from 1.

    Lines of .jsonl and .json, one row a line, are passed on unchanged, for the decoder to judge. Values of .csv are
    text, and an empty field without quotes is null; typed values of .parquet become text of all their digits. Each but
    .parquet may end in .gz.

    Raises:
        ConfigurationError: the file is not what its name says.
        SourceUnavailable: it cannot be read, or not yet to its end.
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
    with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as parquet:
        wide = _timestamps_of_96_bits(parquet)
        nanoseconds = _nanoseconds(file, parquet.metadata, wide) if wide else repeat(None)
        for batch, exact in zip(parquet.iter_batches(BATCH), nanoseconds, strict=False):
            texts = {name: _all_digits(batch.column(name), exact.column(name)) for name in wide}
            columns = [texts.get(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
            yield from _rows(file, pa.RecordBatch.from_arrays(columns, names=batch.schema.names))


def _nanoseconds(file: Path, metadata: pq.FileMetaData, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(file, metadata=metadata) as again:
        yield from again.iter_batches(BATCH, columns=columns)


def _timestamps_of_96_bits(file: pq.ParquetFile) -> list[str]:
    """Return the columns with timestamps of 96 bits, or lists of them: the default of Spark and Impala."""
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    tops = {leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    kinds = {field.name: getattr(field.type, "value_type", field.type) for field in file.schema_arrow}
    return sorted(name for name in tops if pa.types.is_timestamp(kinds[name]))


def _all_digits(micros: pa.Array, nanos: pa.Array) -> pa.Array:
    """Return timestamps of 96 bits as text in UTC, without a zone because they carry none.

    They are read twice: as nanoseconds they wrap around outside of 1677 to 2262, as microseconds they lack digits.
    """
    if pa.types.is_list(micros.type):
        elements = iter(_all_digits(micros.flatten(), nanos.flatten()).to_pylist())
        sizes = pc.list_value_length(micros).to_pylist()
        lists = [None if size is None else [next(elements) for _ in range(size)] for size in sizes]
        return pa.array(lists, pa.list_(pa.string()))
    whole = micros.cast(pa.timestamp("us"))
    rest = pc.subtract(nanos.cast(pa.int64()), pc.multiply(whole.cast(pa.int64()), 1000))
    digits = pc.if_else(pc.equal(rest, 0), "", pc.utf8_lpad(rest.cast(pa.string()), 3, "0"))
    return pc.binary_join_element_wise(whole.cast(pa.string()), digits, "")


_READERS = {".csv": csv_rows, ".jsonl": _lines, ".json": _lines, ".parquet": parquet_rows}


def has_lines(name: str) -> bool:
    """Return whether a file of rows has one row a line, by its name."""
    return Path(name.removesuffix(".gz")).suffix in (".jsonl", ".json")


def _rows(file: Path, batch: pa.RecordBatch) -> Iterator[list[bytes]]:
    names = batch.schema.names
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigurationError(f"{file}: column {name} stands in it {count} times")
    for start in range(0, batch.num_rows, BATCH):
        yield as_json(names, batch.slice(start, BATCH).columns)


def as_json(names: Sequence[str], columns: Sequence[pa.Array]) -> list[bytes]:
    """Return rows of typed values as JSON objects, from which `events.images.reader` reads the same values."""
    texts = [_texts(column) for column in columns]
    return [msgspec.json.encode(dict(zip(names, row, strict=True))) for row in zip(*texts, strict=True)]


def _texts(column: pa.Array) -> list[Any]:
    """Return a column's values for JSON: texts of all their digits, in UTC where they have a zone."""
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
        return msgspec.json.encode({name: _text(member) for name, member in value.items()}).decode()
    return [_text(each) for each in value] if isinstance(value, list | tuple) else str(value)
