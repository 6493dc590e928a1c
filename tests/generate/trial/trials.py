"""A living source in a folder, and the truth that it records."""

import json
from pathlib import Path
from typing import Any

from oracle import capture, comparison, declarations, values
from txloom.generate import truth
from txloom.generate.trial.living_source import LivingSource
from txloom.storage.delta import arrow_tables


def living(folder: Path) -> LivingSource:
    return LivingSource(folder / "source", folder / "inbox")


def final(source: LivingSource) -> dict[str, dict[Any, Any]]:
    """Return the rows that the source has now, as typed values, by table and key."""
    folder, state = source.folder / truth.FOLDER / "final", {}
    for name, table in declarations.TABLES.items():
        rows = [json.loads(line) for line in capture.lines(folder / f"{name}.jsonl")]
        state[name] = {tuple(row[column] for column in table.key): row for row in rows}
    return values.typed_state(state)


def difference(source: LivingSource, lake: str, versions: dict[str, int] | None = None) -> str:
    """Return what differs between the source's rows and the tables of a lake; nothing where they are equal.

    Columns that were declared since are left out: the source's own record does not have them.
    """
    expected = final(source)
    actual = {
        name: comparison.keyed(_rows(f"{lake}/{name}", table, (versions or {}).get(name)), table.key)
        for name, table in declarations.TABLES.items()
    }
    unlike = comparison.differences(expected, actual)
    return comparison.report(unlike) if unlike else ""


def _rows(path: str, table: Any, version: int | None) -> list[dict[str, Any]]:
    columns = ", ".join(f'"{column}"' for column in table.columns)
    return arrow_tables.select(path, f"select {columns} from t", version).to_pylist()
