"""Tables of a declaration out of a folder of extracts: whole tables as files, in a folder for each date."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from txloom.errors import ConfigurationError
from txloom.steps.propose.proposal import Column, Table, fit, lake_name
from txloom.steps.propose.sampled_types import sampled_type

SCHEMA = "extracts"
"""Extracts name no schema, and a declaration wants one."""
ROWS = 5_000
"""Rows of a file that are looked at."""


def newest_date(folder: Path) -> Path | None:
    """Return the folder of the newest date in a folder of extracts; None where it holds none."""
    if not folder.is_dir():
        return None
    return max((each for each in folder.iterdir() if each.is_dir() and _is_date(each.name)), default=None)


def _is_date(name: str) -> bool:
    try:
        date.fromisoformat(name)
    except ValueError:
        return False
    return True


def extract_tables(folder: Path) -> tuple[list[Table], list[str]]:
    """Return a table for each folder of the newest date that has rows, and what is to be known of the others.

    Raises ConfigurationError where there are none, or a file cannot be read.
    """
    newest = newest_date(folder)
    folders = [each for each in sorted(newest.iterdir()) if each.is_dir()] if newest is not None else []
    tables, unknown = list[Table](), list[str]()
    for entry in (each for each in folders if each.name[0] not in "._"):
        files = [each for each in sorted(entry.iterdir()) if each.is_file() and each.name[0] not in "._"]
        file, rows = next(((file, rows) for file in files if (rows := _readable(file))), (None, []))
        if entry.name != lake_name(entry.name):
            unknown.append(f"what {entry.name} may be called: the folder of a table has the table's name in the lake.")
        elif file is None:
            unknown.append(f"which columns {entry.name} has: it has no rows in {entry.parent.name}. Declare it too.")
        else:
            tables.append(fit(_table(f"{SCHEMA}.{entry.name}", rows, _parquet_types(file))))
    if not tables:
        expected = "expected YYYY-MM-DD/TABLE/FILE.csv, .jsonl or .parquet"
        raise ConfigurationError(f"--files: found no rows below {folder}, {expected}.")
    return tables, unknown


def _readable(file: Path) -> list[dict[str, Any]]:
    try:
        return _rows(file)
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise ConfigurationError(f"--files: {file} cannot be read: {error}.") from error


def _rows(file: Path) -> list[dict[str, Any]]:
    if file.suffix == ".parquet":
        batch = next(pq.ParquetFile(file).iter_batches(ROWS), None)
        return [] if batch is None else batch.to_pylist()
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        lines = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        if file.name.removesuffix(".gz").endswith(".csv"):
            return [
                {name: value or None for name, value in row.items() if name is not None}
                for row in islice(csv.DictReader(lines), ROWS)
            ]
        rows = [json.loads(line) for line in islice(lines, ROWS) if line.startswith("{")]
    return [{name: row.get(name) for name in dict.fromkeys(name for row in rows for name in row)} for row in rows]


def _parquet_types(file: Path) -> dict[str, str]:
    """Return the types that a Parquet file declares."""
    if file.suffix != ".parquet":
        return {}
    names = {
        "int64": "long", "int32": "int", "int16": "int", "int8": "int", "string": "string", "large_string": "string",
        "double": "double", "float": "float", "bool": "boolean", "date32[day]": "date", "binary": "binary",
    }  # fmt: skip
    known = dict[str, str]()
    for each in pq.read_schema(file):
        kind = str(each.type)
        if kind in names:
            known[each.name] = names[kind]
        elif kind.startswith("decimal"):
            known[each.name] = f"decimal({each.type.precision},{each.type.scale})"
        elif kind.startswith("timestamp"):
            known[each.name] = "timestamptz" if each.type.tz else "timestamp"
    return known


def _table(name: str, rows: Sequence[dict[str, Any]], known: dict[str, str]) -> Table:
    names = list(rows[0])
    columns = [
        Column(each, known[each]) if each in known else Column(each, *sampled_type(row[each] for row in rows))
        for each in names
    ]
    unique = [
        each
        for each in names
        if len({row[each] for row in rows if isinstance(row[each], str | int)} - {None}) == len(rows)
    ]
    key = unique[:1]
    guess = (
        f"{key[0]} had no value twice in {len(rows)} rows" if key else "no column has each value once: say what it is"
    )
    return Table(name, columns, key, guess)
