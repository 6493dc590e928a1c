"""Record what current tables are computed from, as a reader sees it: the table `computed_tables`.

A mark is a digest. These records say in full what it stands for: the declaration, the histories, and from which csn on
the rows are right. A merge appends one where the newest record of a table says otherwise, before it writes the table.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from txloom.config import names
from txloom.config.contents import Content, aggregate_content, table_content, to_json
from txloom.config.models.pipeline import Pipeline
from txloom.steps.settling.computed import Computed
from txloom.storage.declarations import records as r
from txloom.storage.declarations.records import Pair, State
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import COMPUTED_TABLES
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import row_tables

COMPARED = ("mark", "status", "since_csn", "reason", "declaration")
"""The columns of which one differs where a record is new."""


def record_computed(
    pipeline: Pipeline, paths: TablePaths, states: Mapping[Pair, State], computed: Computed, run_id: str
) -> None:
    """Append a record of each current table whose newest one differs; a repeated call appends nothing.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        states: of each history's member.
        computed: the marks that the tables get.
        run_id: the run that computes them.
    """
    path, now = paths.table(names.COMPUTED_TABLES), datetime.now(UTC)
    rows = small_tables.query(path, f'select "table", {", ".join(COMPARED)} from t order by entered')
    known = {row["table"]: tuple(row[name] for name in COMPARED) for row in rows}
    new = list[dict[str, Any]]()
    for name, pairs, declaration in _declared(pipeline):
        about = {"mark": computed.marks.get(name), **_completeness(states, pairs), "declaration": to_json(declaration)}
        if known.get(name) != tuple(about[each] for each in COMPARED):
            new.append({"table": name, **about, "run_id": run_id, "at": now})
    if new:
        small_tables.append(path, new, COMPUTED_TABLES)


def _declared(pipeline: Pipeline) -> list[tuple[str, Sequence[Pair], Content]]:
    """Return each current table: its name, the histories and members of its rows, and what decides its contents."""
    declared, pair_of = list[tuple[str, Sequence[Pair], Content]](), dict[str, Pair]()
    for row_table in row_tables(pipeline):
        name = row_table.table.name
        pair_of[name] = (row_table.history, name)
        partition_by = "" if row_table.partitions is None else str(row_table.partitions.declared)
        content = {"histories": {name: row_table.history}, "partition_by": partition_by}
        declared.append((row_table.current, [pair_of[name]], content | table_content(pipeline, row_table.table)))
    for aggregate in pipeline.targets.aggregates:
        pairs = [pair_of[name] for name, _ in schemas.members_of(aggregate)]
        content = {"histories": {member: history for history, member in pairs}}
        declared.append((aggregate.current, pairs, content | aggregate_content(pipeline, aggregate)))
    return declared


def _completeness(states: Mapping[Pair, State], pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the status of a table, and from which csn on its rows are right, with the reason: of all its members."""
    newest = [states[pair].newest for pair in pairs if pair in states]
    if not newest:
        return {"status": r.COMPLETE, "since_csn": 0, "reason": r.FROM_STREAM}
    last = max(newest, key=lambda record: (record.status != r.COMPLETE, record.since_csn))
    return {"status": last.status, "since_csn": last.since_csn, "reason": last.reason}
