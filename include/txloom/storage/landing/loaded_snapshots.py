"""Snapshots that `load_snapshot` landed: the ids of their transactions, their landings and the csns that they cover."""

from collections.abc import Collection
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.events.source_names import SourceNames
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import int_list, text_list
from txloom.storage.paths import TablePaths

WHOLE, PARTIAL = f"{names.SYSTEM_PREFIX}load:", f"{names.SYSTEM_PREFIX}partial_load:"
"""The prefixes of transaction ids of snapshots of all watched tables, and of some; the landing's number follows."""
ANY = 2**63 - 1
"""A csn or a release that bounds nothing."""
_TOPIC = f"{names.SYSTEM_PREFIX}load:"


def xid(landing: int, *, whole: bool) -> str:
    """Return the transaction id of a snapshot; whole: of all watched tables.

    >>> xid(7, whole=True)
    '_txloom_load:7'
    """
    return f"{WHOLE if whole else PARTIAL}{landing}"


def topic(table: str) -> str:
    """Return the topic under which a table's snapshot is planned."""
    return f"{_TOPIC}{table}"


def landed(paths: TablePaths) -> list[dict[str, Any]]:
    """Return landing and topic of each snapshot's landing, from `landed_files`; most pipelines have none."""
    return small_tables.query(paths.landed_files, f"select landing, topic from t where starts_with(topic, '{_TOPIC}')")


def floor(paths: TablePaths, release: int) -> int:
    """Return the csn of the newest snapshot of all tables that was released up to a release; 0 without one.

    The snapshot contains every transaction at or below that csn: valid-through does not wait for one, and a late one
    amends no cut.
    """
    if not landed(paths):
        return 0
    condition = f"starts_with(xid, '{WHOLE}') and status = 'released' and release <= {release}"
    rows = small_tables.query(paths.table(names.TRANSACTIONS), f"select max(csn) as csn from t where {condition}")
    return int((rows[0]["csn"] if rows else 0) or 0)


def _planned(pipeline: Pipeline, paths: TablePaths) -> list[tuple[int, str]]:
    """Return the landing and the table of each landed snapshot, under the table's present name.

    A table is found by the source that its truncate names, because a declaration may have renamed it since, or have
    given its name to another source. A snapshot of a source that no table has any more is left out.
    """
    plan = [(row["landing"], row["topic"].removeprefix(_TOPIC)) for row in landed(paths)]
    if not plan:
        return []
    landings = int_list(sorted({landing for landing, _ in plan}))
    of_loads = f"kind = 'row' and op = 'T' and topic = '{names.LOAD}' and landing in ({landings})"
    sql = f'select distinct landing, "table", source_table from t where {of_loads} and "table" is not null'
    known = SourceNames(pipeline.tables)
    now = {
        (row["landing"], row["table"]): known.counted(row["source_table"])
        for row in small_tables.query(paths.change_events, sql)
    }
    planned = list[tuple[int, str]]()
    for landing, name in plan:
        if (landing, name) not in now:
            planned.append((landing, name))
        elif (table := now[landing, name]) is not None:
            planned.append((landing, table.name))
    return planned


def waiting(pipeline: Pipeline, paths: TablePaths, tables: Collection[str]) -> dict[str, int]:
    """Return, of each of some tables with a snapshot that was landed and not finished yet, the newest one's csn."""
    ids = text_list(xid(row["landing"], whole=whole) for row in landed(paths) for whole in (True, False))
    if not ids:
        return {}
    finished = small_tables.query(paths.table(names.TRANSACTIONS), f"select xid from t where xid in ({ids})")
    decided = {int(row["xid"].rsplit(":", 1)[-1]) for row in finished}
    csn_by_table: dict[str, int] = {}
    for landing, table in _planned(pipeline, paths):
        if table in tables and landing not in decided:
            where = f"landing = {landing} and kind = 'metadata'"
            csns = small_tables.query(paths.change_events, f"select csn from t where {where}")
            csn_by_table[table] = max([csn_by_table.get(table, -1), *(row["csn"] for row in csns)])
    return csn_by_table


def newest(paths: TablePaths) -> int | None:
    """Return the highest csn of an event that the source sent; None before there was one."""
    rows = small_tables.query(
        paths.change_events, f"select max(csn) as csn from t where not starts_with(xid, '{names.SYSTEM_PREFIX}')"
    )
    csn: int | None = rows[0]["csn"] if rows else None
    return csn


def loaded(pipeline: Pipeline, paths: TablePaths, csn: int, release: int, after: int = -1) -> dict[str, int]:
    """Return, of each declared table with a released snapshot, the newest one's csn.

    csn, release: those up to a watermark. after: only snapshots of later releases of the buffer.
    """
    plan = _planned(pipeline, paths)
    if not plan:
        return {}
    condition = f"starts_with(xid, '{names.SYSTEM_PREFIX}') and csn <= {csn} and release <= {release}"
    condition += f" and release > {after}"
    sql = f"select xid, csn from t where status = 'released' and {condition}"
    done = {
        row["xid"].rsplit(":", 1)[-1]: row["csn"] for row in small_tables.query(paths.table(names.TRANSACTIONS), sql)
    }
    csn_by_table: dict[str, int] = {}
    for landing, table in plan:
        if (csn_of := done.get(str(landing))) is not None:
            csn_by_table[table] = max(csn_by_table.get(table, 0), csn_of)
    return csn_by_table
