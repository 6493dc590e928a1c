"""Files of rows (CSV, JSON lines, Parquet), read as JSON objects: change sets, and snapshots that are loaded."""

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
from txloom.storage.stores.file_systems import filesystem_of
from txloom.storage.stores.places import Place, parquet_file, place, unpacked

BATCH = 20_000
"""Rows of a batch."""
BLOCK = 16 << 20
"""Bytes of CSV that are parsed in one block; no row may be longer."""


def rows_as_json(path: str | Place) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (number of the first row, rows as JSON objects) of a change set, in batches; rows count from 1.

    Lines of .jsonl and .json, one row a line, are passed on unchanged, for the decoder to judge. Values of .csv are
    text, and an empty field without quotes is null; typed values of .parquet become text of all their digits. Each but
    .parquet may end in .gz.

    Raises:
        ConfigurationError: the file is not what its name says.
        SourceUnavailable: it cannot be read, or not yet to its end.
    """
    file, number = place(str(path)), 1
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


def _lines(file: Place) -> Iterator[list[bytes]]:
    with unpacked(file) as stream:
        held: list[bytes] = []
        for line in stream:
            held.append(line.rstrip(b"\r\n"))
            if len(held) == BATCH:
                yield held
                held = []
        if held:
            yield held


def csv_rows(file: Place) -> Iterator[list[bytes]]:
    """Yield a CSV file's rows as JSON objects: values are text, an empty field without quotes is null."""
    with _csv_stream(file) as stream:
        names = _open_csv(stream).schema.names
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with _csv_stream(file) as stream:
        for batch in _open_csv(stream, convert):
            yield from _rows(file, batch)


def _csv_stream(file: Place) -> pa.NativeFile:
    compression = "gzip" if file.suffix == ".gz" else None
    filesystem, inside = filesystem_of(str(file))
    return filesystem.open_input_stream(inside, compression=compression)


def _open_csv(stream: pa.NativeFile, convert: csv.ConvertOptions | None = None) -> csv.CSVStreamingReader:
    read, parse = csv.ReadOptions(block_size=BLOCK), csv.ParseOptions(newlines_in_values=True)
    return csv.open_csv(stream, read, parse, convert)  # type: ignore[arg-type]  # Arrow's own streams are taken too


def parquet_rows(file: Place) -> Iterator[list[bytes]]:
    """Yield a Parquet file's rows as JSON objects: typed values become text of all their digits."""
    with parquet_file(file, coerce_int96_timestamp_unit="us") as parquet:
        wide = timestamps_of_96_bits(parquet)
        nanoseconds = _nanoseconds(file, parquet.metadata, wide) if wide else repeat(None)
        for batch, exact in zip(parquet.iter_batches(BATCH), nanoseconds, strict=False):
            wide_columns = [] if exact is None else [(name, batch.column(name), exact.column(name)) for name in wide]
            texts = {name: _all_digits(micros, nanos) for name, micros, nanos in wide_columns}
            columns = [texts.get(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
            yield from _rows(file, pa.RecordBatch.from_arrays(columns, names=batch.schema.names))


def _nanoseconds(file: Place, metadata: pq.FileMetaData, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with parquet_file(file, metadata=metadata) as again:
        yield from again.iter_batches(BATCH, columns=columns)


def timestamps_of_96_bits(file: pq.ParquetFile) -> list[str]:
    """Return the columns with timestamps of 96 bits, or lists of them: the default of Spark and Impala."""
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    tops = {leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    kinds = {field.name: getattr(field.type, "value_type", field.type) for field in file.schema_arrow}
    return sorted(name for name in tops if pa.types.is_timestamp(kinds[name]))


def _all_digits(micros: "pa.Array[Any]", nanos: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return timestamps of 96 bits as text in UTC, without a zone because they carry none.

    They are read twice: as nanoseconds they wrap around outside of 1677 to 2262, as microseconds they lack digits.
    """
    if isinstance(micros, pa.ListArray) and isinstance(nanos, pa.ListArray):
        elements = iter(_all_digits(micros.flatten(), nanos.flatten()).to_pylist())
        sizes = pc.list_value_length(micros).to_pylist()
        lists = [None if size is None else [next(elements) for _ in range(size)] for size in sizes]
        return pa.array(lists, pa.list_(pa.string()))
    whole = micros.cast(pa.timestamp("us"))
    rest = pc.subtract(nanos.cast(pa.int64()), pc.multiply(whole.cast(pa.int64()), 1000))
    digits = pc.if_else(pc.equal(rest, pa.scalar(0)), "", pc.utf8_lpad(rest.cast(pa.string()), 3, "0"))
    texts: pa.Array[Any] = pc.binary_join_element_wise(whole.cast(pa.string()), digits, "")
    return texts


_READERS = {".csv": csv_rows, ".jsonl": _lines, ".json": _lines, ".parquet": parquet_rows}


def has_lines(name: str) -> bool:
    """Return whether a file of rows has one row a line, by its name."""
    return Path(name.removesuffix(".gz")).suffix in (".jsonl", ".json")


def _rows(file: Place, batch: pa.RecordBatch) -> Iterator[list[bytes]]:
    names = batch.schema.names
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigurationError(f"{file}: column {name} stands in it {count} times")
    for start in range(0, batch.num_rows, BATCH):
        yield as_json(names, batch.slice(start, BATCH).columns)


def as_json(names: Sequence[str], columns: "Sequence[pa.Array[Any]]") -> list[bytes]:
    """Return rows of typed values as JSON objects, from which `events.images.reader` reads the same values."""
    texts = [_texts(column) for column in columns]
    return [msgspec.json.encode(dict(zip(names, row, strict=True))) for row in zip(*texts, strict=True)]


def _texts(column: "pa.Array[Any]") -> list[Any]:
    """Return a column's values for JSON: texts of all their digits, in UTC where they have a zone."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
        column = column.cast(pa.string())
    if isinstance(column, pa.ListArray | pa.LargeListArray):
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
