"""export_cut: write the tables of a published cut as plain Parquet files, with a manifest."""

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from txloom.errors import ConfigurationError
from txloom.steps.step import Counts, Step
from txloom.storage.delta import arrow_tables
from txloom.storage.paths import TablePaths, write_whole
from txloom.storage.publishing import reader_holds
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.publishing.reader_holds import Cut
from txloom.storage.stores.delta_tables import table_at
from txloom.storage.stores.file_systems import filesystem_of

LOG = logging.getLogger(__name__)

MANIFEST = "manifest.json"
"""The file that is written last: a folder without it is not complete."""
FILE_ROWS = 1_000_000
"""Rows of a file."""
LONGEST = timedelta(hours=24)
"""How long vacuum keeps the files of the cut for an export that died."""


@dataclass(frozen=True)
class Choice:
    """What is exported.

    Args:
        folder: the path or URI of the folder, which is made.
        cut_id: the cut; None: the newest.
        tables: the current tables; empty: all of the cut.
    """

    folder: str
    cut_id: int | None = None
    tables: Sequence[str] = ()


def export_cut(step: Step, choice: Choice) -> Counts:
    """Write a cut's tables to `FOLDER/TABLE/part-N.parquet`, then the manifest.

    While it runs, vacuum keeps the files of the cut. What a try that died has left in the folder is written over; a
    repeated call for the same cut finds its manifest and writes nothing.

    Returns:
        cut_id, tables, rows, files, and written: 0 where the folder held this export already.

    Raises:
        ConfigurationError: there is no such cut, it has no such table, its files may be gone, or the folder holds the
            export of another cut, or anything else.
        CutReplaced: a table was written anew since the cut was published.
    """
    paths, cut = step.paths, _cut(step.paths, choice)
    tables = list(choice.tables) or sorted(cut.versions)
    if unknown := sorted(set(tables) - cut.versions.keys()):
        known = ", ".join(sorted(cut.versions))
        raise ConfigurationError(f"cut {cut.cut_id} has no table {', '.join(unknown)}; it has {known}")
    target = _Target(*filesystem_of(choice.folder.rstrip("/")), choice.folder)
    if (there := target.manifest()) is not None:
        return {**_counts(target.refuse_other(there, cut, tables)), "written": 0}
    target.refuse_strangers(tables)
    reader = f"export {step.run_id}"
    reader_holds.hold(paths, reader, cut, datetime.now(UTC) + LONGEST)
    try:
        _refuse_vacuumed(step, cut, tables)
        reader_holds.refuse_replaced(paths, cut, tables)
        written = {name: target.write(paths.table(name), name, cut.versions[name]) for name in tables}
        manifest = {**_about(paths, cut), "tables": written}
        target.finish(manifest)
    finally:
        reader_holds.release(paths, reader, cut)
    return {**_counts(manifest), "written": 1}


def _cut(paths: TablePaths, choice: Choice) -> Cut:
    cut = reader_holds.published(paths, choice.cut_id)
    if cut is None:
        which = "" if choice.cut_id is None else f" {choice.cut_id}"
        raise ConfigurationError(f"pipeline {paths.pipeline} has published no cut{which}")
    return cut


def _refuse_vacuumed(step: Step, cut: Cut, tables: Sequence[str]) -> None:
    """Raise ConfigurationError for an older cut of which vacuum may have begun to remove files."""
    old = reader_holds.vacuumed(step.paths, cut, step.pipeline.maintenance.vacuum.retain, tables)
    if old:
        raise ConfigurationError(f"cut {cut.cut_id} is older than vacuum keeps ({', '.join(old)}): export a newer one")


def _about(paths: TablePaths, cut: Cut) -> dict[str, Any]:
    row = newest_cut(paths, "*", f"cut_id = {cut.cut_id}") or {}
    published = row.get("published_at")
    return {
        "pipeline": paths.pipeline,
        "cut_id": cut.cut_id,
        "valid_through": cut.valid_through,
        "published_at": published.isoformat() if published is not None else None,
        "gaps": [str(gap) for gap in row.get("gaps") or ()],
    }


def _counts(manifest: dict[str, Any]) -> dict[str, int]:
    tables = manifest["tables"].values()
    return {
        "cut_id": manifest["cut_id"],
        "tables": len(tables),
        "rows": sum(table["rows"] for table in tables),
        "files": sum(len(table["files"]) for table in tables),
    }


@dataclass(frozen=True)
class _Target:
    """The folder of an export; path: in its file system, shown: as it was given."""

    filesystem: fs.FileSystem
    path: str
    shown: str

    def manifest(self) -> dict[str, Any] | None:
        """Return the manifest that is there, or None."""
        try:
            with self.filesystem.open_input_stream(f"{self.path}/{MANIFEST}") as stream:
                there: dict[str, Any] = json.loads(stream.read())
        except FileNotFoundError:
            return None
        return there

    def refuse_other(self, there: dict[str, Any], cut: Cut, tables: Sequence[str]) -> dict[str, Any]:
        """Return the manifest that is there; raise ConfigurationError where it is of another cut or of other tables."""
        versions = {name: table["version"] for name, table in there["tables"].items()}
        if there["cut_id"] != cut.cut_id or versions != {name: cut.versions[name] for name in tables}:
            raise ConfigurationError(
                f"{self.shown} holds the export of cut {there['cut_id']} ({', '.join(versions)}); name another folder"
            )
        return there

    def refuse_strangers(self, tables: Sequence[str]) -> None:
        """Raise ConfigurationError where the folder holds anything but what an export of these tables leaves."""
        held = self.filesystem.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        strangers = sorted(each.base_name for each in held if each.base_name not in (*tables, f".{MANIFEST}", ""))
        if strangers:
            raise ConfigurationError(f"{self.shown} is not empty: {strangers[0]} is in it; name another folder")

    def write(self, path: str, name: str, version: int) -> dict[str, Any]:
        """Write a table at a version; return its version, schema, rows and files for the manifest."""
        folder = f"{self.path}/{name}"
        self.filesystem.create_dir(folder, recursive=True)
        self.filesystem.delete_dir_contents(folder)
        table = table_at(path, version)
        schema = arrow_tables.plain_schema(arrow_tables.schema_of(table))
        batches = arrow_tables.batches({"t": table}, "select * from t")
        files = list[dict[str, Any]]()
        for rows in _of_size(batches, schema):
            files.append(self._file(name, f"part-{len(files):05}.parquet", rows, schema))
        LOG.info(f"{name}: {sum(file['rows'] for file in files)} rows in {len(files)} files")
        columns = [{"name": field.name, "type": str(field.type)} for field in schema]
        count = sum(file["rows"] for file in files)
        return {"version": version, "rows": count, "columns": columns, "files": files}

    def _file(self, table: str, name: str, batches: Iterator[pa.Table], schema: pa.Schema) -> dict[str, Any]:
        """Write rows as one file, a part at a time."""
        path, count = f"{self.path}/{table}/{name}", 0
        with self.filesystem.open_output_stream(path) as stream, pq.ParquetWriter(stream, schema) as writer:
            for rows in batches:
                writer.write_table(rows)
                count += rows.num_rows
        digest, size = hashlib.sha256(), 0
        with self.filesystem.open_input_stream(path, compression=None) as stream:
            while block := stream.read(4 << 20):
                digest.update(block)
                size += len(block)
        return {"path": f"{table}/{name}", "rows": count, "bytes": size, "sha256": digest.hexdigest()}

    def finish(self, manifest: dict[str, Any]) -> None:
        """Write the manifest."""
        write_whole(self.filesystem, f"{self.path}/{MANIFEST}", json.dumps(manifest, indent=2, ensure_ascii=False))


def _of_size(batches: Iterator[pa.Table], schema: pa.Schema) -> Iterator[Iterator[pa.Table]]:
    """Yield, for each file, its rows part by part; a table without rows has one file without rows."""
    left: pa.Table | None = next(batches, None)

    def parts() -> Iterator[pa.Table]:
        nonlocal left
        space = FILE_ROWS
        while left is not None and space:
            rows, rest = left.slice(0, space), left.slice(space)
            yield arrow_tables.conform(rows, schema)
            space -= rows.num_rows
            left = rest if rest.num_rows else next(batches, None)

    if left is None:
        yield iter(())
    while left is not None:
        yield parts()
