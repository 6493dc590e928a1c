"""What the transactions of dates keep of their extracts: only the watched tables and declared columns of their time.

The plan of a date's landing records for each extract which columns were compared, and which ones were undeclared.
The values of an undeclared column, and the rows of a table that was not watched, are missing until a later date or a
loaded snapshot has them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline, Table
from txloom.storage.delta import small_tables
from txloom.storage.landing import loaded_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.snapshots import dated_transactions

CSN, SOURCE, COLUMNS, UNDECLARED, WITHOUT, FULL = "csn", "source", "columns", "undeclared", "without", "full"
"""The entries in a row of the plan: the date's csn, the table's source, the declared and the undeclared columns of its
extract, the sources of the tables that the date was compared without, and whether extracts were full."""


@dataclass(frozen=True)
class Extract:
    """What a date has of a table; the names of the source's columns are in lower case.

    Args:
        columns: the columns that were compared.
        undeclared: the other columns of the extract, which were not declared.
    """

    columns: frozenset[str]
    undeclared: frozenset[str]


@dataclass(frozen=True)
class DatedExtracts:
    """The released transaction of a date.

    Args:
        csn: the csn of the date.
        extracts: what the date has of each table, by source.
        without: the sources of the tables that the date was compared without.
        is_full: whether extracts were full, so that each one has all rows of its table.
        is_known: whether the plan records what the date has; plans of earlier versions of txloom do not.
    """

    csn: int
    extracts: Mapping[str, Extract]
    without: frozenset[str]
    is_full: bool
    is_known: bool


@dataclass(frozen=True)
class Lack:
    """The most recent run of dates on which a table lacked rows or values.

    Args:
        dates: the number of these dates.
        first_csn: the csn of the first one.
        last_csn: the csn of the last one.
        until: the csn of the date that had what the table lacked; None: the table still lacks it.
        ends_whole: whether the extract of that date has every row that the table lacked.
    """

    dates: int
    first_csn: int
    last_csn: int
    until: int | None
    ends_whole: bool


def planned(pipeline: Pipeline, table: Table, csn: int, undeclared: Iterable[str], without: Iterable[Table]) -> str:
    """Return what the plan of a date's landing records about a table's extract, as JSON.

    Args:
        pipeline: the declaration.
        table: the table, with columns that it took up.
        csn: the csn of the date.
        undeclared: the other columns of the extract.
        without: the tables that the date is compared without.
    """
    return json.dumps(
        {
            CSN: csn,
            SOURCE: table.source,
            COLUMNS: sorted(name.casefold() for column in table.columns for name in column.sources),
            UNDECLARED: sorted(name.casefold() for name in undeclared),
            WITHOUT: sorted(each.source for each in without),
            FULL: is_full(pipeline),
        },
        ensure_ascii=False,
    )


def lacks(pipeline: Pipeline, paths: TablePaths, reached: Watermark) -> dict[str, Lack]:
    """Return by watched table the most recent dates on which it lacked rows or declared columns; omit other tables.

    An extract that was compared with a column ends the dates on which the table lacked the column. Rows that a partial
    extract does not have still lack it then, so that only a loaded snapshot completes the table. The first partial
    extract of a table is an exception: by convention, it has all rows of the table.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        reached: the csn and the release up to which dates count.
    """
    if pipeline.source.snapshots is None:
        return {}
    return _lacks(pipeline, paths, reached, _released(pipeline, paths, reached))


def completing(pipeline: Pipeline, paths: TablePaths, since: Mapping[str, int], reached: Watermark) -> dict[str, int]:
    """Return by table the csn of the first date whose extract has everything that the table lacked.

    Args:
        pipeline: the declaration with columns that tables took up.
        paths: the tables of the pipeline.
        since: by table, the lowest csn that the date may have; the result leaves out tables without such a date.
        reached: the csn and the release up to which dates count.
    """
    if pipeline.source.snapshots is None:
        return {}
    dates = _released(pipeline, paths, reached)
    lacked, completed = _lacks(pipeline, paths, reached, dates), dict[str, int]()
    for name, csn in since.items():
        lack, source = lacked.get(name), pipeline.table(name).source
        until = 0 if lack is None else lack.until
        if until is None:
            continue
        ends_whole = lack is not None and lack.ends_whole
        later = [each for each in dates if each.csn >= max(csn, until) and source in each.extracts]
        whole = [each.csn for each in later if each.is_full or (ends_whole and each.csn == until)]
        completed |= {name: whole[0]} if whole else {}
    return completed


def is_full(pipeline: Pipeline) -> bool:
    """Return whether a pipeline reads full extracts, which have all rows of their tables."""
    return pipeline.source.snapshots is not None and pipeline.source.snapshots.is_full


def _lacks(
    pipeline: Pipeline, paths: TablePaths, reached: Watermark, dates: Sequence[DatedExtracts]
) -> dict[str, Lack]:
    """Return what `lacks` returns; dates: those up to the watermark."""
    if not dates:
        return {}
    loaded = loaded_snapshots.loaded(pipeline, paths, reached.valid_through, reached.release)
    by_table = {
        table.name: _lack(
            table,
            [each for each in dates if each.csn > loaded.get(table.name, 0)],
            is_loaded=table.name in loaded,
        )
        for table in pipeline.tables
    }
    return {name: lack for name, lack in by_table.items() if lack is not None}


def _lack(table: Table, dates: Sequence[DatedExtracts], *, is_loaded: bool) -> Lack | None:
    """Return the most recent dates on which a table lacked something; None if there are none.

    Args:
        table: the table.
        dates: the dates since the table was loaded, in order.
        is_loaded: whether the table was loaded, so that no extract of `dates` is its first.
    """
    declared = {name.casefold() for column in table.columns for name in column.sources}
    columns, lacks_rows, is_first = set[str](), False, not is_loaded
    since, until, ends_whole = list[int](), None, False
    for each in dates:
        extract, has_all_rows = each.extracts.get(table.source), each.is_full or is_first
        if extract is not None:
            lacks_rows, is_first = False, False
            columns = (columns | declared & extract.undeclared) - extract.columns
        elif not each.is_known:
            columns, lacks_rows, is_first = set(), False, False
        elif table.source not in each.without:
            lacks_rows = True
        if columns or lacks_rows:
            since, until = [*(since if until is None else []), each.csn], None
        elif since and until is None:
            until, ends_whole = each.csn, has_all_rows
    return Lack(len(since), since[0], since[-1], until, ends_whole) if since else None


def _released(pipeline: Pipeline, paths: TablePaths, reached: Watermark) -> list[DatedExtracts]:
    """Return the released transactions of dates, in the order of their csns."""
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
            # Plans of earlier versions of txloom do not record it.
            is_full=all(each.get(FULL, is_full(pipeline)) for each in plans[csn]),
            is_known=True,
        )
        if csn in plans
        else DatedExtracts(csn, {}, frozenset(), is_full(pipeline), is_known=False)
        for csn in csns
    ]


def _plans(paths: TablePaths) -> dict[int, list[dict[str, Any]]]:
    """Return by csn of a date the rows of its newest plan; an attempt that died left an earlier plan."""
    of_dates = f"starts_with(topic, '{dated_transactions.topic('')}') and origin is not null"
    rows = small_tables.query(paths.landed_files, f"select landing, origin from t where {of_dates} order by landing")
    plans = dict[int, list[dict[str, Any]]]()
    for _, of_landing in groupby(rows, key=itemgetter("landing")):
        extracts = [json.loads(row["origin"]) for row in of_landing]
        plans[extracts[0][CSN]] = extracts
    return plans
