"""Rules between expectations and the tables that they check."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from txloom.config import names
from txloom.config.models.durations import parse_duration
from txloom.config.problems import Problem, Unfit, did_you_mean, listed
from txloom.config.validation.draft import Draft, TableDraft, meant, written
from txloom.config.yaml.document import Item, inner

RULES = Path(__file__).with_name("great_expectations.json")
"""The arguments of Great Expectations' expectations that judge a table; scripts/list_expectations.py wrote it."""
COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list")
FREE = ("ExpectColumnToExist", "ExpectTableColumnsToMatchOrderedList", "ExpectTableColumnsToMatchSet")
"""Expectations whose column arguments may name columns that do not exist."""
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
SHOWN = 10
"""The most tables that a hint names."""
QUERY = re.compile(r"\s*(?:--[^\n]*\n\s*)*(select|with)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Current:
    """A current table: its name, the name as messages show it, and its columns; None where others may be added."""

    name: str
    label: str
    columns: frozenset[str] | None


def check_expectations(draft: Draft) -> Iterator[Problem]:
    """Yield problems of expectations: repeated ids, tables that no target writes, and checks that could never fail."""
    owners: dict[str, Item] = {}
    for expectation in draft.within("expectations"):
        if (name := draft.word(expectation, "id")) and (other := owners.setdefault(name.value, name)) is not name:
            hint = f"{other.path} in line {other.line} has it."
            yield draft.problem(name, "an id that no other expectation has", hint)
        kind = draft.word(expectation, "kind")
        match kind.value if kind else None:
            case "orphans":
                yield from _orphans(draft, expectation)
            case "stuck_transactions":
                yield from outlives_patience(draft, expectation, "older_than", "expectation could never fail")
            case "version_regressions":
                yield from _versions(draft, expectation)
            case "snapshot_age":
                yield from _snapshots(draft, kind)
            case "great_expectation":
                yield from _great(draft, expectation)
            case "invariant":
                yield from _invariant(draft, expectation)


def _orphans(draft: Draft, expectation: Item) -> Iterator[Problem]:
    sides = [side for key in ("child", "parent") if (side := draft.word(expectation, key))]
    for side in sides:
        yield from draft.unknown_table(side)
        if table := draft.table(side):
            yield from table.keyless(side)
        if draft.table(side) and not draft.is_written(side):
            yield draft.problem(side, "a table that a target writes", "Add it to targets.mirrors.")
    if len(sides) == 2 and (child := draft.table(sides[0])) and (parent := draft.table(sides[1])):
        yield from parent.parent_key(child, expectation)


def _versions(draft: Draft, expectation: Item) -> Iterator[Problem]:
    """Yield problems of a version expectation: its table must declare a version and be mirrored, with a history."""
    name = draft.word(expectation, "table")
    if name is None:
        return
    yield from draft.unknown_table(name)
    if (table := draft.table(name)) is None:
        return
    yield from table.keyless(name)
    if table.item.given("version") is None:
        hint = "Say with `version` which of its columns counts the changes of a row."
        yield draft.problem(name, "a table that declares its version", hint)
    mirrored = [each.item.text("name") for mirror in draft.mirrors for each in mirror.tables]
    if name.value not in mirrored and not draft.targets_are_refused:
        yield draft.problem(name, "a mirrored table", "Its history is followed. Add it to targets.mirrors.")


def _snapshots(draft: Draft, kind: Item | None) -> Iterator[Problem]:
    source = draft.root.get("source")
    form = draft.word(source, "format") if source else None
    if form is not None and kind is not None and form.value != "snapshots":
        hint = "Elsewhere valid_through_age says how old the tables are."
        yield draft.problem(kind, "source.format: snapshots", hint, f"{kind.shown} for the format {form.value}")


def _great(draft: Draft, expectation: Item) -> Iterator[Problem]:
    """Yield problems of a Great Expectation: its table, its class, its arguments, and the columns that they name."""
    table = _current(draft, expectation)
    if isinstance(table, Problem):
        yield table
    name = draft.word(expectation, "expectation")
    if name is None:
        return
    if name.value not in known():
        hint = meant(name, known()) or "A query of your own is an expectation of kind invariant."
        expected = "an expectation of Great Expectations that judges a table"
        yield draft.problem(name, expected, hint)
        return
    takes, given = known()[name.value], expectation.get("arguments")
    arguments = given.value if given is not None and isinstance(given.value, dict) else {}
    for key, about in takes.items():
        if about["required"] and key not in arguments:
            path = inner(inner(expectation.path, "arguments"), key)
            line = (given or expectation).line
            yield Problem(draft.file, line, path, "nothing", f"what {name.value} needs")
    for key, item in arguments.items():
        if key not in takes:
            hint = did_you_mean(key, takes)
            yield draft.problem(item, listed(takes), hint, "an unknown argument")
        elif not _fits(item.plain, takes[key]["types"]):
            yield draft.problem(item, f"{listed(takes[key]['types'])}, as {name.value} takes")
        elif key in COLUMN_ARGUMENTS and name.value not in FREE and isinstance(table, Current):
            yield from _columns(draft, item, table)


def _current(draft: Draft, expectation: Item) -> Current | Problem | None:
    name = draft.word(expectation, "table")
    if name is None:
        return None
    tables = list(_currents(draft))
    table = next((each for each in tables if each.name == name.value), None)
    if table is not None or draft.targets_are_refused:
        return table
    hint = meant(name, [each.label for each in tables])
    return draft.problem(name, "a current table, of a mirror or of documents", hint)


def _columns(draft: Draft, item: Item, table: Current) -> Iterator[Problem]:
    for column in item.value if isinstance(item.value, list) else [item]:
        is_reserved = str(column.value).startswith(names.SYSTEM_PREFIX)
        if table.columns is not None and column.value not in table.columns and not is_reserved:
            yield draft.problem(column, f"a column of {table.label}", meant(column, table.columns))


def _fits(value: Any, types: list[str]) -> bool:
    kind = TYPES.get(type(value))
    return "any" in types or kind in types or (kind == "integer" and "number" in types)


def _invariant(draft: Draft, expectation: Item) -> Iterator[Problem]:
    """Yield problems of an invariant's query: it must begin with select or with, and name a current table.

    Whether the whole query can be planned is checked by `txloom check`.
    """
    sql = draft.word(expectation, "sql")
    if sql is None:
        return
    tables = list(_currents(draft))
    if QUERY.match(sql.value) is None:
        yield draft.problem(sql, "a query that begins with select or with")
    elif tables and not draft.targets_are_refused and not any(mentions(sql.value, each.name) for each in tables):
        shown = listed([each.label for each in tables[:SHOWN]], "and")
        hint = f"There are {shown}{' and more' if len(tables) > SHOWN else ''}."
        yield draft.problem(sql, "a query over current tables", hint)


def mentions(sql: str, name: str) -> bool:
    """Return whether a name is a word of an SQL text, in any case.

    >>> mentions("select * from orders", "orders"), mentions("select * from orders_current", "orders")
    (True, False)
    """
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", sql, re.IGNORECASE) is not None


def _currents(draft: Draft) -> Iterator[Current]:
    """Yield the current tables that readers see."""
    for mirror in draft.mirrors:
        for table in mirror.tables:
            if not mirror.is_pattern and (given := draft.word(mirror.item, "current")):
                yield Current(given.value, written(given), _declared(table))
            else:
                yield Current(str(table.item.text("name")), table.label, _declared(table))
    for aggregate in draft.within("targets", "aggregates"):
        root = draft.word(aggregate, "root")
        rooted = draft.table(root) if root else None
        declared = _declared(rooted) if rooted else None
        fields = [draft.word(child, "as") or draft.word(child, "table") for child in aggregate.members("children")]
        columns = None if declared is None else declared | {field.value for field in fields if field}
        if given := draft.word(aggregate, "current"):
            yield Current(given.value, written(given), columns)
        elif name := draft.word(aggregate, "name"):
            yield Current(names.document_table(name.value), names.document_table(written(name)), columns)


def _declared(table: TableDraft) -> frozenset[str] | None:
    return None if table.item.text("undeclared_columns") == "evolve" else frozenset(table.columns)


@cache
def known() -> dict[str, dict[str, Any]]:
    """Return the arguments of Great Expectations' expectations by class; the file is read on first use."""
    arguments: dict[str, dict[str, Any]] = json.loads(RULES.read_text())
    return arguments


def outlives_patience(draft: Draft, owner: Item, key: str, never: str) -> Iterator[Problem]:
    """Yield a problem where a limit of waiting has no effect, because patience ends before it.

    owner, key: the mapping and the member that hold the limit. never: what could never happen, for the hint.
    """
    completeness, limit = draft.root.get("completeness"), draft.word(owner, key)
    patience = draft.word(completeness, "patience") if completeness else None
    try:
        if limit and patience and parse_duration(limit.value) >= parse_duration(patience.value):
            hint = f"A transaction that waits longer has become dead letters: this {never}."
            yield draft.problem(limit, f"less than completeness.patience ({written(patience)})", hint)
    except Unfit:
        return
