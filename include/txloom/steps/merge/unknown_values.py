"""Late changes that move rows of which history no longer has every column."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.quality import findings as f
from txloom.quality.findings import Finding
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.targets import history_reader
from txloom.storage.targets.row_tables import RowTable


def unknown_values(paths: TablePaths, row_table: RowTable, target: Watermark) -> list[Finding]:
    """Return a finding if a late change moves a row of which history no longer has every column, else no finding.

    That is an update that changes the key, lies below the csn up to which history was cleaned, and leaves columns
    unchanged.

    Args:
        paths: the tables of the pipeline.
        row_table: the table.
        target: the watermark to bring it to.
    """
    since, reached = history_reader.cleaned(paths, row_table), watermark_of(paths.table(row_table.current))
    if not since or reached == target:
        return []
    moves = f"_txloom_op = 'U' and cardinality(_txloom_unchanged) > 0 and _txloom_csn < {since}"
    rows = history_reader.chosen(
        paths, row_table, f"{moves} and _txloom_release > {reached.release} and _txloom_release <= {target.release}"
    )
    old, new = _named(rows, row_table.key, before=True), _named(rows, row_table.key, before=False)
    moved = rows.filter(pa.array([a != b for a, b in zip(old, new, strict=True)], pa.bool_()))
    evidence = f"{moved.num_rows} rows changed their key below csn {since}"
    return [
        Finding(f.UNKNOWN_VALUES, row_table.table.name, None, row["_txloom_csn"], row["_txloom_xid"], evidence)
        for row in moved.sort_by("_txloom_csn").slice(0, 1).select(["_txloom_csn", "_txloom_xid"]).to_pylist()
    ]


def _named(changes: pa.Table, key: Sequence[str], *, before: bool) -> list[tuple[Any, ...]]:
    """Return the key that each change has before or after it; where an update has only one of both, this one."""
    image = changes.column("_txloom_before").combine_chunks()
    columns = []
    for name in key:
        if name in names.POSITION:
            columns.append(changes.column(name).to_pylist())
            continue
        old, new = pc.struct_field(image, name), changes.column(name).combine_chunks()
        columns.append((pc.coalesce(old, new) if before else pc.coalesce(new, old)).to_pylist())
    return list(zip(*columns, strict=True))
