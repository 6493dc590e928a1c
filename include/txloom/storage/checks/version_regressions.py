"""Rows whose version fell: computed from the history of their mirror, for the keys that changed in some releases."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txloom.config.models.expectations import VersionExpectation
from txloom.config.models.pipeline import Pipeline, Table
from txloom.quality.checkpoint import count
from txloom.quality.conditions import NotBelow
from txloom.quality.verdicts import CheckInput
from txloom.storage.checks.check_input import asking, check_input
from txloom.storage.checks.data_checks import history_of
from txloom.storage.checks.judged_state import Releases
from txloom.storage.delta.sql import sql_name, text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.stores.delta_tables import table_at

FLOATS = ("float", "double")


def regressions(
    pipeline: Pipeline, paths: TablePaths, expectation: VersionExpectation, at: Mapping[str, int], releases: Releases
) -> CheckInput:
    """Return the rows whose version is below one that they had before, since they were last inserted or moved.

    releases: only keys that changed in them are checked. A row that is deleted, or has caught up, does not count.
    """
    name, table = history_of(pipeline, expectation.table), pipeline.table(expectation.table)
    if name not in at:
        return CheckInput(0)
    history = {"t": table_at(paths.table(name), version=at[name])}
    ask = asking(history)
    changed = count(ask, _changed(table, releases))
    if not changed:
        return CheckInput(0)
    rows = _newest(table, releases, ask(_truncated(releases)).to_pylist())
    order = ", ".join(sql_name(column) for column in table.key)
    result = check_input(expectation, ask, rows, NotBelow("version", "highest"), order=order)
    return replace(result, checked=changed)


def _key(table: Table, alias: str = "") -> str:
    return ", ".join(f"{alias}{sql_name(column)}" for column in table.key)


def _version(table: Table) -> str:
    """Return SQL for the version in a row of history, null where it has none.

    NaN is no version: SQL sorts it above all numbers and Great Expectations below them, so that they would disagree.
    """
    counter = table.column(str(table.version))
    value = f"h.{sql_name(counter.name)}"
    return f"case when isnan({value}) then null else {value} end" if counter.type.kind in FLOATS else value


def _given_in(releases: Releases) -> str:
    """Return SQL for the history up to the last of some releases."""
    upto = "" if releases.upto is None else f" where _txloom_release <= {releases.upto}"
    return f"(select * from t{upto}) as h"


def _changed(table: Table, releases: Releases) -> str:
    new = f"_txloom_release > {releases.since} and _txloom_op in ('I', 'r', 'U')"
    return f"select distinct {_key(table)} from {_given_in(releases)} where {new}"


def _truncated(releases: Releases) -> str:
    columns = "_txloom_csn as csn, _txloom_pos as pos"
    return f"select {columns} from {_given_in(releases)} where _txloom_op = 'T' order by csn desc, pos desc limit 1"


def _newest(table: Table, releases: Releases, truncated: list[dict[str, Any]]) -> str:
    """Return SQL for the newest version of each row that changed, and the highest before it, in one life of the row.

    A life begins with an insert, with a change of the key, or behind a truncate or delete.
    """
    same = " and ".join(f"c.{sql_name(column)} = h.{sql_name(column)}" for column in table.key)
    moved = " or ".join(
        f"(h._txloom_before[{text_literal(column)}] is not null"
        f" and h._txloom_before[{text_literal(column)}] <> h.{sql_name(column)})"
        for column in table.key
    )
    last = truncated[0] if truncated else {"csn": -1, "pos": -1}
    after = f"(h._txloom_csn > {last['csn']} or (h._txloom_csn = {last['csn']} and h._txloom_pos > {last['pos']}))"
    coordinates = "_txloom_csn as csn, h._txloom_pos as pos, h._txloom_xid as xid, h._txloom_op as op"
    begins = f"case when h._txloom_op in ('I', 'r') or (h._txloom_op = 'U' and ({moved})) then 1 else 0 end as begins"
    counter = str(table.version)
    version = f"{_version(table)} as version, array_has(h._txloom_unchanged, {text_literal(counter)})"
    window = f"partition by {_key(table)} order by csn, pos"
    rows = (
        f"select {_key(table, 'h.')}, h.{coordinates}, {begins}, {version} as untold from {_given_in(releases)}"
        f" join ({_changed(table, releases)}) as c on {same} where h._txloom_op in ('I', 'r', 'U', 'D') and {after}"
    )
    lives = f"select *, sum(begins + case when op = 'D' then 1 else 0 end) over ({window}) as life from ({rows})"
    newest = f"select *, max(life) over (partition by {_key(table)}) as last_life from ({lives})"
    living = (
        f"select * from ({newest}) where life = last_life and op <> 'D' and version is not null"
        " and not coalesce(untold, false)"
    )
    ranked = (
        f"select *, row_number() over (partition by {_key(table)} order by csn desc, pos desc) as n,"
        f" first_value(version) over (partition by {_key(table)} order by version desc, csn, pos) as highest,"
        f" first_value(csn) over (partition by {_key(table)} order by version desc, csn, pos) as highest_csn"
        f" from ({living})"
    )
    columns = f"{_key(table)}, version, csn, xid, highest, highest_csn"
    return f"select {columns} from ({ranked}) where n = 1"
