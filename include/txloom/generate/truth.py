"""What the source held: its last state, every state before it if asked for, and which faults the delivery had.

All lies in a folder that no pipeline reads, since its name begins with an underscore. Rows are JSON objects a line,
every value as PostgreSQL's text, null as null.
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
    """A file of JSON lines that grows; what a run wrote that was never finished is cut off again."""

    def __init__(self, path: Path, size: int) -> None:
        """Open a file behind its first bytes; without any it begins anew."""
        self._stream = path.open("r+b" if size else "w+b")
        self._stream.truncate(size)
        self._stream.seek(0, SEEK_END)

    def write(self, content: Mapping[str, Any]) -> None:
        """Write a line."""
        self._stream.write(encode(content) + b"\n")

    @property
    def size(self) -> int:
        """Return how many bytes there are."""
        return self._stream.tell()

    def close(self) -> None:
        """Finish the file."""
        self._stream.close()


class _Version(msgspec.Struct):
    csn: int
    table: str
    key: Key
    row: dict[str, Text] | None


def write_versions(lines: Lines, transaction: Transaction, csn: int) -> None:
    """Write what each row is that a transaction changed, after it; null for one that is gone."""
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
    """Write all rows as they are at a csn, where nothing is known of what came before."""
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
    """Return every table's rows by their keys as of a csn; there is none before the first state that was kept."""
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
    """Write a table's rows, in the order of their keys, under a temporary name that is then changed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".{table.name}.jsonl.part"
    with path.open("wb") as stream:
        stream.writelines(encode(rows[key]) + b"\n" for key in sorted(rows, key=str))
    path.rename(folder / f"{table.name}.jsonl")


def named(table: SourceTable, row: Row) -> dict[str, Text]:
    """Return a row's values under the names of their columns."""
    return dict(zip(table.columns, row, strict=True))


def tables_of(names: Iterable[str]) -> list[SourceTable]:
    """Return tables by their names; those that nobody watches have no truth."""
    chosen = set(names)
    return [table for table in WATCHED if table.name in chosen]
