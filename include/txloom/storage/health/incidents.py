"""The table `incidents`: small, and written without the pipeline's lease, because a merge may hold that for an hour.

Each write replaces all rows on the condition that no other write came since they were read: it carries an application
transaction of this table, and Delta refuses a commit beside another one that carries it. The second writer reads and
decides again.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from txloom.config import names
from txloom.quality.incident_lifecycle import IncidentLifecycle
from txloom.quality.incidents import Incident
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.committing import commit_properties
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.retry import repeated
from txloom.storage.delta.table_metadata import newest_metadata
from txloom.storage.paths import TablePaths
from txloom.storage.stores.delta_tables import table_at
from txloom.storage.system_tables import INCIDENTS

TRIES = 20
JUDGED_AT = "looked_at"
Change = Callable[[list[IncidentLifecycle]], list[IncidentLifecycle]]
_INCIDENT = tuple(each.name for each in fields(Incident))


def lifecycles(paths: TablePaths) -> list[IncidentLifecycle]:
    """Return all recorded incidents, the oldest first."""
    try:
        return _read(opened(paths.table(names.INCIDENTS)))
    except TableNotFoundError:
        return []


def judged_at(paths: TablePaths) -> datetime | None:
    """Return when a cycle last found its source in order, whether or not there was something new."""
    text = newest_metadata(paths.table(names.INCIDENTS)).get(JUDGED_AT)
    return datetime.fromisoformat(text) if text else None


def change(paths: TablePaths, decide: Change, *, checked_at: datetime | None = None) -> list[IncidentLifecycle]:
    """Let a rule change the recorded incidents and return them; it runs again where another process wrote meanwhile.

    checked_at: also record that the source was checked at this time. Nothing is written when nothing changes. Raises
    WriteConflict after TRIES conflicts.
    """
    path = paths.table(names.INCIDENTS)
    small_tables.ensure(path, INCIDENTS)

    def attempt() -> list[IncidentLifecycle]:
        table = table_at(path)
        known = _read(table)
        after = decide(list(known))
        if after == known and checked_at is None:
            return known
        _write(table, after, checked_at or judged_at(paths))
        return after

    return repeated(attempt, TRIES, lambda _: f"{path}: others write into it all the time; nothing was changed")


def _read(table: DeltaTable) -> list[IncidentLifecycle]:
    rows = arrow_tables.ask({"t": table}, "select * from t order by opened_at, kind, subject").to_pylist()
    return [_lifecycle(row) for row in rows]


def _lifecycle(row: dict[str, Any]) -> IncidentLifecycle:
    incident = {name: row[name] for name in _INCIDENT} | {"rows": tuple(row["rows"] or ())}
    lifecycle = {name: value for name, value in row.items() if name not in _INCIDENT}
    for channels in ("opened_to", "closed_to"):
        lifecycle[channels] = frozenset(lifecycle[channels] or ())
    return IncidentLifecycle(Incident(**incident), **lifecycle)


def _row(incident_lifecycle: IncidentLifecycle) -> dict[str, Any]:
    lifecycle = {name: value for name, value in vars(incident_lifecycle).items() if name != "incident"}
    channels = {name: sorted(lifecycle[name]) for name in ("opened_to", "closed_to")}
    return {
        **vars(incident_lifecycle.incident),
        "rows": list(incident_lifecycle.incident.rows),
        **lifecycle,
        **channels,
    }


def _write(table: DeltaTable, after: Sequence[IncidentLifecycle], judged_at: datetime | None) -> None:
    about = {JUDGED_AT: judged_at.astimezone(UTC).isoformat()} if judged_at is not None else {}
    once = names.INCIDENTS, table.version() + 1
    properties = commit_properties(once=[once], metadata=about or None, fenced=False)
    rows = pa.Table.from_pylist([_row(each) for each in after], INCIDENTS)
    write_deltalake(table, rows, mode="overwrite", commit_properties=properties)
