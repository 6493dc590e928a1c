"""A warehouse into which a test writes what the buffer would have released to one mirror."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from called import step_of
from txloom.config import load, names
from txloom.steps.merge.merge_current import merge_current
from txloom.storage import system_tables
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_tables, schemas

Change = tuple[str, dict[str, Any], dict[str, Any]]
"""Operation, what is known of the row before, what is told of it after: columns that are left out are unchanged."""
BEGAN = datetime.now(UTC) - timedelta(days=1000, hours=1)
"""When csn 0 was committed; each csn took a day."""


@dataclass
class Released:
    """The mirror `readings` of one declared table."""

    folder: Path
    columns: str
    options: str = ""
    key: str = "[id]"
    more: str = ""
    releases: int = 0

    def __post_init__(self) -> None:
        self.declare(self.options)
        self.paths = TablePaths(str(self.folder), "plant")

    @property
    def table(self) -> Any:
        return self.pipeline.table("readings")

    def declare(self, options: str, columns: str = "") -> None:
        """Declare the mirror with other options, or the table with other columns."""
        self.columns = columns or self.columns
        file = self.folder / "plant.yaml"
        file.write_text(
            f"name: plant\nsource: {{format: change_events, files: {{path: {self.folder}}}}}\n"
            "completeness: {rule: single}\n"
            f"tables: [{{name: readings, source: S.READINGS, key: {self.key}, columns: {{{self.columns}}}}}]\n"
            f"targets: {{mirrors: [{{table: readings{', ' if options else ''}{options}}}]}}\n{self.more}"
        )
        self.pipeline = load(file)

    def release(self, csn: int, changes: Sequence[Change]) -> None:
        """Release one transaction."""
        self.releases += 1
        history_tables.create(self.pipeline, self.paths)
        at = BEGAN + timedelta(days=csn)
        position = {
            "xid": f"x{csn}",
            "csn": csn,
            "committed_at": at,
            "release": self.releases,
            "landing": self.releases,
        }
        rows = [self._row(change, {**position, "pos": pos, "row": pos}) for pos, change in enumerate(changes)]
        small_tables.append(self.paths.table("readings_changes"), rows, schemas.changes_schema(self.table))
        done = {"xid": f"x{csn}", "csn": csn, "status": "released", "release": self.releases, "committed_at": at}
        small_tables.append(self.paths.table(names.TRANSACTIONS), [done], system_tables.TRANSACTIONS)
        about = {"release": self.releases, "landing": self.releases}
        small_tables.replace(
            self.paths.table(names.PENDING_TRANSACTIONS), [], system_tables.PENDING_TRANSACTIONS, about
        )

    def _row(self, change: Change, paths: dict[str, Any]) -> dict[str, Any]:
        op, before, after = change
        left = [name for name in self.table.column_names if name not in after] if op == "U" else []
        row_columns = {**paths, "op": op, "before": before or None, "before_known": list(before) or None}
        row_columns["unchanged"] = [name for name in left if name not in self.table.key] or None
        image = before if op == "D" else {**{name: before.get(name) for name in self.table.key}, **after}
        return {**image, **{f"_txloom_{name}": value for name, value in row_columns.items()}}

    def merge(self, spark: Callable[[], Any]) -> dict[str, int]:
        return merge_current(step_of(self.pipeline, self.folder, f"run-{self.releases}", spark))
