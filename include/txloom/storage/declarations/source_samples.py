"""A message of each source table that was ever landed, by which a declaration is asked whether it watches the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from txloom.config.models.pipeline import Pipeline, Table
from txloom.events import formats, rejections
from txloom.events.formats import SourceDecoder
from txloom.events.source_names import folded
from txloom.storage.dead_letters import open_letters
from txloom.storage.dead_letters.open_letters import MESSAGE, open_dead_letters, unread_dead_letters
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.sql import int_list, text_list, text_literal
from txloom.storage.landing import landing_plan
from txloom.storage.paths import TablePaths

IN_ORDER = 'order by value is null, landing, "row"'
OF_UNKNOWN = f"cause = {text_literal(rejections.UNKNOWN_TABLE)} and detail is not null"
"""The condition on dead letters with rows of tables that were not declared."""


def source_samples(paths: TablePaths, where: str = "true") -> pa.Table:
    """Return a row message of each topic and source table: MESSAGE and source_table.

    Its value is null where no message of the source table is kept any more.

    Args:
        paths: where the tables are.
        where: a SQL condition on the rows.
    """
    first = f"row_number() over (partition by topic, source_table {IN_ORDER}) as n"
    of_rows = f"kind = 'row' and source_table is not null and ({where})"
    sql = f"select {MESSAGE}, source_table, {first} from t where {of_rows}"
    return arrow_tables.select(paths.change_events, f"select * from ({sql}) where n = 1")


def watched_sources(pipeline: Pipeline, samples: pa.Table, spellings: dict[str, str] | None = None) -> dict[str, str]:
    """Return the names of source tables that a declaration watches, as messages have them, each with its table.

    Args:
        pipeline: the declaration, with what its source was declared as before (`landing_plan.as_landed`).
        samples: a message of each source table, as `source_samples` returns them.
        spellings: how names of the source were spelled so far.
    """
    watched: dict[str, str] = {}
    decoder = SourceDecoder(pipeline, spellings, again=True)
    for row in samples.to_pylist():
        name = row["source_table"]
        if formats.is_ordered(pipeline):
            table = decoder.find_table(name)
        else:
            table = (None if row["value"] is None else _decoded(decoder, row)) or _named_when_unread(pipeline, row)
        if table is not None:
            watched.setdefault(name, table)
    return watched


@dataclass(frozen=True)
class Rejected:
    """Rows of a declared table that are dead letters, because they came before the table was declared.

    Args:
        transactions: the id of each row's transaction; None if it is not known.
        csns: the csn of each row; 0 if it is not known.
        are_open: whether none of the dead letters was dismissed.
    """

    transactions: Sequence[str | None] = ()
    csns: Sequence[int] = ()
    are_open: bool = True


def find_rejected(pipeline: Pipeline, paths: TablePaths) -> set[str]:
    """Return the declared tables for which a redrive may bring rows that came before the table was declared.

    Open dead letters have these rows. No redrive brings rows of an ordered source, because these rows cannot be
    decoded without their transaction.

    Args:
        pipeline: the declaration.
        paths: where the tables are.
    """
    if formats.is_ordered(pipeline):
        return set()
    return {*_rejected(pipeline, open_dead_letters(paths, "distinct detail", f"where {OF_UNKNOWN}")).values()}


def _rejected(pipeline: Pipeline, letters: pa.Table) -> dict[str, str]:
    """Map the detail of dead letters of unknown tables to the table that is now declared for their rows."""
    if pipeline.source.format == "snapshots":
        return {}
    tables = dict[str, str]()
    for row in letters.to_pylist():
        name = rejections.name_of_unknown(row["detail"])
        table = None if name is None else _named_when_unread(pipeline, {"source_table": name})
        tables |= {} if table is None else {row["detail"]: table}
    return tables


def read_rejected(pipeline: Pipeline, paths: TablePaths, table: str) -> Rejected:
    """Return the rows of a table that are open or dismissed dead letters because they came before its declaration.

    Args:
        pipeline: the declaration.
        paths: where the tables are.
        table: the name of the table.
    """
    known = _rejected(pipeline, unread_dead_letters(paths, "distinct detail", f"where {OF_UNKNOWN}"))
    if not (details := [detail for detail, name in known.items() if name == table]):
        return Rejected()
    where = f"where {OF_UNKNOWN} and detail in ({text_list(details)})"
    rows = unread_dead_letters(paths, f"{MESSAGE}, xid, csn", where).to_pylist()
    are_open = len(rows) == open_dead_letters(paths, "detail", where).num_rows
    if formats.is_ordered(pipeline):
        return Rejected([row["xid"] for row in rows], [row["csn"] or 0 for row in rows], are_open)
    decoder, events = SourceDecoder(landing_plan.as_landed(pipeline, paths), again=True), list[dict[str, Any]]()
    for row in rows:
        headers = None if row["headers"] is None else [dict(row["headers"])]
        if row["value"] is not None:
            events += decoder.decode(row["topic"], [row["value"].encode()], headers).to_pylist()
    return Rejected([each["transaction_id"] for each in events], [each["csn"] or 0 for each in events], are_open)


def redriven_rows(paths: TablePaths, since: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the redriven rows that first came as dead letters, before their table was declared.

    A release without such a row did not count it, whenever the transaction was released.

    Args:
        paths: where the tables are.
        since: by table, the first landing that decoded it as it is declared now.

    Returns:
        landing, row, transaction_id and table of each row.
    """
    if not since or not (redrives := open_letters.redrives(paths)):
        return []
    tables = {"c": opened(paths.change_events), "letters": opened(paths.dead_letters)}
    letters = f"(select * from letters where {OF_UNKNOWN}) as d"
    columns = 'c.landing, c."row", c.transaction_id, c."table", min(d.landing) as first'
    redriven = f"c.landing in ({int_list(redrives)}) and c.kind = 'row' and c.\"table\" in ({text_list(since)})"
    sql = f"select {columns} from c join {letters} on {open_letters.SAME_MESSAGE} where {redriven} group by 1, 2, 3, 4"
    rows = arrow_tables.ask(tables, sql).to_pylist()
    return [row for row in rows if row["first"] < since[row["table"]]]


def _decoded(decoder: SourceDecoder, row: dict[str, Any]) -> str | None:
    """Return the table that a sample's message is decoded for, and note in the sample whether it can be read."""
    headers = None if row["headers"] is None else [dict(row["headers"])]
    events = decoder.decode(row["topic"], [row["value"].encode()], headers).to_pylist()
    row["is_read"] = bool(events) and events[0]["kind"] == "row"
    return events[0]["table"] if row["is_read"] else None


def _named_when_unread(pipeline: Pipeline, row: dict[str, Any]) -> str | None:
    """Return the only table whose source has a name, in full or as its last part; None for none or several.

    A message that was read decides by itself: its table is not watched.
    """
    if row.get("is_read"):
        return None
    name = row["source_table"]
    last = folded(name.rsplit(".", 1)[-1])
    alike = [table for table in pipeline.tables if folded(table.source.rsplit(".", 1)[-1]) == last]
    exact = [table for table in alike if folded(table.source) == folded(name)]
    return _only(exact or alike)


def _only(tables: Sequence[Table]) -> str | None:
    return tables[0].name if len(tables) == 1 else None
