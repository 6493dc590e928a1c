"""Record the truth of a run: the source's last state, optionally every state before it, and the faults of delivery.

The files are in a folder that no pipeline reads, because its name begins with an underscore. Rows are JSON objects, one
a line, with every value as PostgreSQL's text, and null as null.
"""

from collections.abc import Iterable, Mapping
from io import SEEK_END
from pathlib import Path
from typing import Any

import msgspec

from txloom.errors import ConfigurationError
from txloom.generate.formats.messages import encode
from txloom.generate.workload.changes import Transaction
from txloom.generate.workload.source import Source
from txloom.generate.workload.tables import WATCHED, Row, SourceTable, Text

FOLDER = "_source"
VERSIONS, FAULTS = "versions.jsonl", "faults.jsonl"
Key = tuple[Text, ...]


class Lines:
    """A file of JSON lines that runs append to; lines of an unfinished run are cut off when it is opened again."""

    def __init__(self, path: Path, size: int) -> None:
        """Open a file and keep its first `size` bytes; 0 begins a new file."""
        self._stream = path.open("r+b" if size else "w+b")
        self._stream.truncate(size)
        self._stream.seek(0, SEEK_END)

    def write(self, content: Mapping[str, Any]) -> None:
        """Append a line."""
        self._stream.write(encode(content) + b"\n")

    @property
    def size(self) -> int:
        """Return how many bytes the file has."""
        return self._stream.tell()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


class _Version(msgspec.Struct):
    csn: int
    table: str
    key: Key
    row: dict[str, Text] | None


def write_versions(lines: Lines, transaction: Transaction, csn: int) -> None:
    """Write each row that a transaction changed as it is after it; null for a row that is gone."""
    after: dict[tuple[SourceTable, Key], Row | None] = {}
    for change in transaction.changes:
        table = change.table
        for gone in (*change.removed, *((change.before,) if change.before is not None else ())):
            after[table, table.key_of(gone)] = None
        if change.after is not None:
            after[table, table.key_of(change.after)] = change.after
    for (table, key), row in after.items():
        if table not in WATCHED:
            continue
        lines.write({"csn": csn, "table": table.name, "key": key, "row": None if row is None else named(table, row)})


def write_base(lines: Lines, source: Source, tables: Iterable[SourceTable], csn: int) -> None:
    """Write all rows as they are at a csn, as the first state that is kept."""
    for table in tables:
        for row in source.rows_of(table):
            lines.write({"csn": csn, "table": table.name, "key": table.key_of(row), "row": named(table, row)})


def write_final(folder: Path, source: Source, tables: Iterable[SourceTable]) -> None:
    """Write the rows that the source holds now."""
    for table in tables:
        write_rows(folder / "final", table, {table.key_of(row): named(table, row) for row in source.rows_of(table)})


def write_as_of(folder: Path, csn: int, tables: Iterable[SourceTable]) -> None:
    """Write the rows that the source held as of a csn."""
    state = state_as_of(folder, csn)
    for table in tables:
        write_rows(folder / "as_of" / str(csn), table, state.get(table.name, {}))


def state_as_of(folder: Path, csn: int) -> dict[str, dict[Key, dict[str, Text]]]:
    """Return every table's rows by their keys as of a csn.

    Raises:
        ConfigurationError: The csn is below the first state that was kept.
    """
    decode = msgspec.json.Decoder(_Version).decode
    state: dict[str, dict[Key, dict[str, Text]]] = {}
    first: int | None = None
    with (folder / VERSIONS).open("rb") as stream:
        for line in stream:
            version = decode(line)
            first = version.csn if first is None else first
            if version.csn > csn:
                break
            rows = state.setdefault(version.table, {})
            if version.row is None:
                rows.pop(version.key, None)
            else:
                rows[version.key] = version.row
    if first is not None and csn < first:
        raise ConfigurationError(f"--as-of: found {csn}, expected a csn from {first} on, the first that was kept.")
    return state


def write_rows(folder: Path, table: SourceTable, rows: Mapping[Key, Mapping[str, Text]]) -> None:
    """Write a table's rows in the order of their keys; the file gets its name when it is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".{table.name}.jsonl.part"
    with path.open("wb") as stream:
        stream.writelines(encode(rows[key]) + b"\n" for key in sorted(rows, key=str))
    path.rename(folder / f"{table.name}.jsonl")


def named(table: SourceTable, row: Row) -> dict[str, Text]:
    """Return a row's values by the names of their columns."""
    return dict(zip(table.columns, row, strict=True))


def tables_of(names: Iterable[str]) -> list[SourceTable]:
    """Return the watched tables with these names; for unwatched tables no truth is recorded."""
    chosen = set(names)
    return [table for table in WATCHED if table.name in chosen]
