"""Mirrors for benchmarks: their declaration, rows of a table as of csn 0, and change sets that change some of them.

A table has a key of one long, text, a decimal, a timestamp and a date. Row N is the same wherever it is made.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import Failed
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.storage.delta import arrow_tables, data_files
from txloom.storage.paths import TablePaths
from txloom.storage.targets.row_tables import create, row_tables

Ints = npt.NDArray[np.int64]
FIRST = 1_700_000_000_000_000
"""Microseconds since 1970 of the first change; rows of the base are older."""
PART = 1_000_000
"""Rows of a data file of a base."""

HEAD = """\
name: {name}
source: {{format: change_sets, files: {{path: "{inbox}", settle: 0s}}}}
completeness: {{rule: single}}
tables:
"""
TABLE = """\
- name: {name}
  source: B.{upper}
  key: [id]
  columns: {{id: long, status: string, note: string, amount: "decimal(20,4)", at: timestamp, day: date}}
"""


def declared(folder: Path, name: str, tables: Sequence[str], inbox: Path) -> Path:
    """Write the declaration of a pipeline that mirrors some tables, and return its file."""
    text = HEAD.format(name=name, inbox=inbox) + "".join(TABLE.format(name=t, upper=t.upper()) for t in tables)
    file = folder / f"{name}.yaml"
    file.write_text(text + 'targets: {mirrors: ["*"]}\n')
    return file


def rows(ids: Ints, version: int = 0) -> pa.Table:
    """Return the rows with some ids, as they are after so many changes."""
    mixed = (ids * 2654435761 + version * 40503) & 0xFFFFFFFF
    states = pa.array(["open", "paid", "sent", "done"])
    amounts = pa.array(mixed % 1_000_000_000, pa.int64()).cast(pa.decimal128(19, 0))
    scaled = pa.Array.from_buffers(pa.decimal128(20, 4), len(ids), amounts.buffers())
    return pa.table(
        {
            "id": pa.array(ids),
            "status": states.take(pa.array(mixed % 4)),
            "note": pa.array(np.char.add("note ", (mixed % 1_000_000).astype(str))),
            "amount": scaled,
            "at": pa.array(FIRST - 1_000_000_000 + mixed, pa.timestamp("us")),
            "day": pa.array(19_000 + mixed % 700, pa.int32()).cast(pa.date32()),
        }
    )


def write_export(folder: Path, count: int, files: int) -> Path:
    """Write the rows 0 to count of the table `events` as Parquet below `rows`, and return the declaration beside it."""
    (folder / "rows" / "events").mkdir(parents=True)
    declaration = declared(folder, "bench", ["events"], folder / "inbox")
    (folder / "inbox").mkdir()
    for number in range(files):
        ids = np.arange(number, count, files, dtype=np.int64)
        pq.write_table(rows(ids), folder / "rows" / "events" / f"part-{number}.parquet")
    return declaration


def write_base(pipeline: Pipeline, paths: TablePaths, table: str, count: int) -> None:
    """Create the current table of a mirror and fill it with the rows 0 to count, as of csn 0, in files of PART rows."""
    row_table = next(each for each in row_tables(pipeline) if each.table.name == table)
    create(row_table, paths)
    path = paths.table(row_table.current)
    parts = []
    for start in range(0, count, PART):
        ids = np.arange(start, min(count, start + PART), dtype=np.int64)
        size = len(ids)
        place = {
            "_txloom_csn": pa.repeat(pa.scalar(0, pa.int64()), size),
            "_txloom_pos": pa.array(ids),
            "_txloom_xid": pa.repeat("base", size),
        }
        part = rows(ids)
        for name, values in place.items():
            part = part.append_column(name, values)
        parts.append(data_files.write_file(part, row_table.current, path))
    data_files.append_files(parts, path, "base", 1)


def write_changes(inbox: Path, table: str, flags: Sequence[str], changed: pa.Table, first: int = FIRST) -> None:
    """Write one change set: a flag for each row, and a timestamp that grows by a microsecond."""
    folder = inbox / f"B.{table.upper()}"
    folder.mkdir(parents=True, exist_ok=True)
    stamps = pa.array(first + np.arange(changed.num_rows), pa.timestamp("us", tz="UTC"))
    pq.write_table(
        changed.append_column("FLAG", pa.array(flags, pa.string())).append_column("CDC_TIMESTAMP", stamps),
        folder / f"{first}.parquet",
    )


def pipeline_of(declaration: Path, warehouse: Path) -> tuple[Pipeline, TablePaths]:
    """Return a pipeline and the paths of its tables."""
    pipeline = load(declaration)
    return pipeline, TablePaths(str(warehouse), pipeline.name)


def current_of(pipeline: Pipeline, table: str) -> str:
    """Return the name of a mirror's current table."""
    return next(each.current for each in row_tables(pipeline) if each.table.name == table)


def refuse_other_rows(declaration: Path, warehouse: Path, table: str, count: int) -> None:
    """Raise Failed where a mirror shows other rows than those with the ids 0 to count, by number, sum and keys."""
    pipeline, paths = pipeline_of(declaration, warehouse)
    sql = "select count(*) as n, sum(id) as ids, count(distinct id) as keys from t"
    seen = arrow_tables.select(paths.table(current_of(pipeline, table)), sql).to_pylist()[0]
    if seen != {"n": count, "ids": count * (count - 1) // 2, "keys": count}:
        raise Failed(f"{warehouse}: {table} shows {seen}, not {count:,} rows")


def linked(folder: Path, copy: Path) -> None:
    """Copy a Delta table by links; what stands at the new place is replaced."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, copy_function=os.link)
