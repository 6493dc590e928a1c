"""What the transactions of dates have of their extracts: the watched tables and declared columns of their time alone.

The plan of a date's landing says for each extract which columns were compared, and which ones were undeclared.
Nothing keeps the values of an undeclared column, or the rows of a table that was not watched, until a later date or a
loaded snapshot has them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline, Table
from txloom.storage.delta import small_tables
from txloom.storage.landing import loaded_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.snapshots import dated_transactions

CSN, SOURCE, COLUMNS, UNDECLARED, WITHOUT = "csn", "source", "columns", "undeclared", "without"
"""The entries of a plan's row: the date's csn, the table's source, the declared and undeclared columns of its extract,
and the sources of tables that the date was compared without."""


@dataclass(frozen=True)
class Extract:
    """What a date has of a table; columns of the source in lower case.

    Args:
        columns: the columns that were compared.
        undeclared: the columns that the extract had beside them.
    """

    columns: frozenset[str]
    undeclared: frozenset[str]


@dataclass(frozen=True)
class DatedExtracts:
    """The released transaction of a date: by source, what it has; without: sources that it was compared without.

    is_known: whether its plan says so; an earlier version of txloom did not write it.
    """

    csn: int
    extracts: Mapping[str, Extract]
    without: frozenset[str]
    is_known: bool


@dataclass(frozen=True)
class Lack:
    """The last dates of which a table lacked rows or values.

    Args:
        dates: how many they are.
        first_csn: of the first one.
        last_csn: of the last one.
        until: the csn of the date that had what the table lacked; None: it still lacks it.
    """

    dates: int
    first_csn: int
    last_csn: int
    until: int | None


def planned(table: Table, csn: int, undeclared: Iterable[str], without: Iterable[Table]) -> str:
    """Return what the plan of a date's landing says of a table's extract, as JSON.

    Args:
        table: the table, with columns that it took up.
        csn: of the date.
        undeclared: the other columns of the extract.
        without: the tables that the date is compared without.
    """
    return json.dumps(
        {
            CSN: csn,
            SOURCE: table.source,
            COLUMNS: sorted(column.source.casefold() for column in table.columns),
            UNDECLARED: sorted(name.casefold() for name in undeclared),
            WITHOUT: sorted(each.source for each in without),
        },
        ensure_ascii=False,
    )


def lacks(pipeline: Pipeline, paths: TablePaths, reached: Watermark) -> dict[str, Lack]:
    """Return by watched table the last dates of which it lacked rows or declared columns; other tables are left out.

    A full extract that was compared with a column brings all of its values. A partial one brings those of its rows, so
    that only a loaded snapshot completes the column.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        reached: the csn and the release up to which dates count.
    """
    if pipeline.source.snapshots is None or not (dates := _released(paths, reached)):
        return {}
    loaded = loaded_snapshots.loaded(pipeline, paths, reached.valid_through, reached.release)
    by_table = {
        table.name: _lack(
            table, [each for each in dates if each.csn > loaded.get(table.name, 0)], is_whole=is_full(pipeline)
        )
        for table in pipeline.tables
    }
    return {name: lack for name, lack in by_table.items() if lack is not None}


def completing(pipeline: Pipeline, paths: TablePaths, since: Mapping[str, int], reached: Watermark) -> dict[str, int]:
    """Return by table the csn of the first date whose full extract has all that the table lacked.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        since: by table, the lowest csn that is asked for; tables without such a date are left out.
        reached: the csn and the release up to which dates count.
    """
    if not is_full(pipeline):
        return {}
    lacked, dates, completed = lacks(pipeline, paths, reached), _released(paths, reached), dict[str, int]()
    for name, csn in since.items():
        lack, source = lacked.get(name), pipeline.table(name).source
        if lack is None or lack.until is not None:
            least = max(csn, (lack.until if lack is not None else None) or csn)
            extracted = [each.csn for each in dates if each.csn >= least and source in each.extracts]
            completed |= {name: extracted[0]} if extracted else {}
    return completed


def is_full(pipeline: Pipeline) -> bool:
    """Return whether a pipeline reads extracts that have all rows of their tables."""
    return pipeline.source.snapshots is not None and pipeline.source.snapshots.extracts == "full"


def _lack(table: Table, dates: Sequence[DatedExtracts], *, is_whole: bool) -> Lack | None:
    """Return the last dates of which a table lacked something, in the order of which `dates` are; None without any."""
    declared = {column.source.casefold() for column in table.columns}
    columns, lacks_rows, was_watched = set[str](), False, False
    since, until = list[int](), None
    for each in dates:
        extract = each.extracts.get(table.source)
        if extract is not None:
            was_watched = True
            lacks_rows &= not is_whole
            columns -= extract.columns if is_whole else set()
            columns |= (declared & extract.undeclared) - extract.columns
        elif not each.is_known:
            columns, lacks_rows, was_watched = set(), False, True
        elif table.source not in each.without:
            # The first partial extract of a table has all of its rows, by convention.
            lacks_rows |= is_whole or was_watched
        if columns or lacks_rows:
            since, until = [*(since if until is None else []), each.csn], None
        elif since and until is None:
            until = each.csn
    return Lack(len(since), since[0], since[-1], until) if since else None


def _released(paths: TablePaths, reached: Watermark) -> list[DatedExtracts]:
    """Return the released transactions of dates, in order."""
    where = f"csn <= {reached.valid_through} and release <= {reached.release} and status = 'released'"
    sql = f"select distinct csn from t where starts_with(xid, '{dated_transactions.XID}') and {where} order by csn"
    csns = [row["csn"] for row in small_tables.query(paths.table(names.TRANSACTIONS), sql)]
    if not csns:
        return []
    plans = _plans(paths)
    return [
        DatedExtracts(
            csn,
            {each[SOURCE]: Extract(frozenset(each[COLUMNS]), frozenset(each[UNDECLARED])) for each in plans[csn]},
            frozenset(source for each in plans[csn] for source in each[WITHOUT]),
            is_known=True,
        )
        if csn in plans
        else DatedExtracts(csn, {}, frozenset(), is_known=False)
        for csn in csns
    ]


def _plans(paths: TablePaths) -> dict[int, list[dict[str, Any]]]:
    """Return by csn of a date what its newest plan says; an attempt that died has an earlier one."""
    of_dates = f"starts_with(topic, '{dated_transactions.topic('')}') and origin is not null"
    plans = dict[int, tuple[int, list[dict[str, Any]]]]()
    for row in small_tables.query(
        paths.landed_files, f"select landing, origin from t where {of_dates} order by landing"
    ):
        about = json.loads(row["origin"])
        landing, extracts = plans.get(about[CSN], (0, []))
        plans[about[CSN]] = (row["landing"], [*extracts, about] if landing == row["landing"] else [about])
    return {csn: extracts for csn, (_, extracts) in plans.items()}
