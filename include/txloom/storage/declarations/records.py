"""Records of what histories were written from, and since when they are complete: the table `completeness`.

A history has a record for each source table whose changes it holds (its member). A buffer that starts by a changed
declaration appends a record with the status DECLARED, or LEFT_OUT, before it writes any row by it. A merge settles it:
it makes the earlier rows again by the new declaration, and appends COMPLETE or INCOMPLETE.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from txloom.config import names
from txloom.config.contents import ALIASES, BYTES, TIMES, VALUES, Content, to_json
from txloom.config.models.column_types import parse, reads_alike
from txloom.config.models.pipeline import Pipeline, Table
from txloom.events.debezium.units import Units, units_of
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.storage.system_tables import COMPLETENESS, OPEN_STATUSES
from txloom.storage.targets import schemas

DECLARED, WAITING = OPEN_STATUSES
"""DECLARED: the history is written by this declaration from now on, and rows of earlier releases are still to be made
again. WAITING: they were, but messages of some transactions have not arrived yet."""
COMPLETE = "complete"
"""Every change from since_csn on is in the history as declared; 0: every change."""
INCOMPLETE = "incomplete"
"""Changes below since_csn are missing, and no message or other history has them: the table needs a snapshot."""
LEFT_OUT = "left out"
"""The declaration has no such history or member any more; nothing is written into it."""
SETTLED = (COMPLETE, INCOMPLETE)

FROM_STREAM = "the stream"
FROM_EARLIER = "an earlier version"
FROM_MESSAGES = "rebuilt from messages"
FROM_HISTORY = "rebuilt from history"
FROM_LOAD = "a loaded snapshot"
FROM_CONNECTOR = "a snapshot of the connector"
FROM_DATE = "the extracts of a date"
ONLY_SINCE = "only since"
LOST = "its history was lost"
ROWS_OF_BEFORE = "rows came for transactions of before"
TAKEN_UP = "a column was taken up"
"""Reasons why a history is complete from a csn on. FROM_STREAM: it has every message since the pipeline's first.
ROWS_OF_BEFORE, TAKEN_UP and LOST: of DECLARED, why a merge has to make rows of earlier transactions once more."""
LOADED = (FROM_LOAD, FROM_CONNECTOR)
"""The reasons of histories that a snapshot completes."""

HELD, SHOWN = "held", "taken_up"
"""The entries of a stored declaration that hold `Record.held` and `Record.taken_up`."""
NOT_STORED = ("number", "at", HELD, SHOWN, "read_before", "types_before")
"""The attributes of a record that are not columns of the table, or that the table gets when the record is entered."""
Pair = tuple[str, str]
"""A history and one of its members."""


@dataclass(frozen=True)
class Record:
    """One row of `completeness`, as `system_tables.COMPLETENESS` describes it.

    Args:
        number: its column `entered`.
        held: of a settled one, the columns that are not declared any more and that all rows of before have still, each
            with its name in the source in lower case. It is stored with the declaration.
        taken_up: of a settled one, the undeclared columns that its table shows; None if an earlier version wrote the
            record. It is stored with the declaration.
        run_id: the run that entered it.
        read_before: by kind of values, how they were read by the newest settled record before it that has columns of
            this kind; without such a record, by the first open one. It is not stored; `states` sets it.
        types_before: by column of the source, in lower case, the type by which the newest settled record before it that
            has the column read it; without such a record, the first open one. It is not stored; `states` sets it.
    """

    table: str
    member: str | None
    status: str
    declaration: Content
    release: int = 0
    since_csn: int = 0
    reason: str | None = None
    missing: str | None = None
    basis: int | None = None
    number: int = 0
    at: datetime | None = None
    held: Mapping[str, str] = field(default_factory=dict)
    taken_up: Sequence[str] | None = None
    run_id: str | None = field(default=None, compare=False)
    read_before: Mapping[str, Units | str] = field(default_factory=dict, compare=False)
    types_before: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def pair(self) -> Pair:
        """Return the history and its member."""
        return self.table, self.member or ""


@dataclass(frozen=True)
class State:
    """The state of a history's member: its newest record, and the newest settled one before it.

    Args:
        newest: the newest record.
        settled: the newest record with a status of SETTLED; None: there never was one.
        follows: the newest release whose rows are as the settled record declares.
        held: by column whose values all rows of before have, its name in the source in lower case.
        left_out: by the source of a column that was declared and then left out, in lower case, the newest release
            before the column was left out. Rows of later releases lack it until a settled record declares it again.
        sources: every column of the source, in lower case, that a settled record of any history had declared when
            `settled` was entered; former names count too.
        always: those of `sources` that every settled record of its history declared.
        ever_declared: every column of the source that a record of any history ever declared, in lower case.
        names: every name under which the table of its source was declared.
        differed: whether a declaration since the settled one had another source, key or rule for dropped columns, or
            read values otherwise.
        since: the records since the settled one, in order.
    """

    newest: Record
    settled: Record | None
    follows: int
    held: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    sources: Set[str] = frozenset()
    always: Set[str] = frozenset()
    ever_declared: Set[str] = frozenset()
    names: Set[str] = frozenset()
    differed: bool = False
    since: Sequence[Record] = ()

    @property
    def is_open(self) -> bool:
        """Return whether a merge still has to settle it."""
        return self.newest.status in OPEN_STATUSES

    @property
    def was_lost(self) -> bool:
        """Return whether its rows were lost while the declaration left it out, or before a merge settled it."""
        return self.newest.status == LEFT_OUT and self.newest.reason == LOST

    @property
    def is_lacking(self) -> bool:
        """Return whether changes are missing that only a snapshot brings."""
        return self.newest.status == INCOMPLETE

    @property
    def is_complete(self) -> bool:
        """Return whether tables that are computed from it show the source."""
        return self.newest.status == COMPLETE

    @property
    def lacks_changes(self) -> bool:
        """Return whether a merge settled it without some changes, even if a snapshot replaced the missing changes."""
        return self.newest.status in SETTLED and (not self.is_complete or self.newest.since_csn > 0)

    @property
    def basis(self) -> int:
        """Return the number of the record by which tables that are computed from it were last to be computed again."""
        return (self.settled.basis or 0) if self.settled is not None else 0


@dataclass
class _LeftOut:
    """The columns of a source that the records of a history left out, up to the last record that was added.

    Args:
        releases: as `State.left_out`.
        declared: the columns of the newest record, in lower case.
    """

    releases: dict[str, int] = field(default_factory=dict)
    declared: Set[str] = frozenset()

    def add(self, record: Record, declared: Iterable[str]) -> None:
        """Take the next record; declared: the columns of the source that it declares, in lower case."""
        before, self.declared = self.declared, {*declared}
        for column in before - self.declared:
            self.releases.setdefault(column, record.release)
        if record.status in SETTLED:
            self.releases = {each: release for each, release in self.releases.items() if each not in self.declared}


def states(records: Iterable[Record]) -> dict[Pair, State]:
    """Return the state of each history's member, of records in the order in which they were entered."""
    states_of: dict[Pair, State] = {}
    called: dict[str, set[str]] = {}
    of_settled: dict[str, set[str]] = {}
    always: dict[Pair, set[str]] = {}
    of_source: dict[str, set[str]] = {}
    left: dict[tuple[str, str], _LeftOut] = {}
    readings: dict[tuple[str, str], dict[str, Units | str]] = {}
    types: dict[tuple[str, str], dict[str, str]] = {}
    for each in records:
        source = each.declaration["source"]
        read_before = readings.setdefault((each.table, source), {})
        types_before = types.setdefault((each.table, source), {})
        record = replace(each, read_before={**read_before}, types_before={**types_before})
        before = states_of.get(each.pair)
        called.setdefault(source, set()).add(record.pair[1])
        declared = {name: column.casefold() for name, (_, column) in record.declaration["columns"].items()}
        aliases = record.declaration.get(ALIASES, {})
        read = {*declared.values(), *(former.casefold() for each in aliases.values() for former in each)}
        of_source.setdefault(source, set()).update(read)
        left.setdefault((record.table, source), _LeftOut()).add(record, declared.values())
        # Rows of a record without a reading, which an earlier version wrote, were read as the next record says.
        as_declared = _readings(record.declaration)
        read_before.update(as_declared if record.status in SETTLED else {**as_declared, **read_before})
        as_typed = types_of(record.declaration)
        types_before.update(as_typed if record.status in SETTLED else {**as_typed, **types_before})
        if record.status in SETTLED:
            of_settled.setdefault(source, set()).update(read)
            always.setdefault((record.table, source), {*read}).intersection_update(read)
            # Rows have the values of a renamed column only if the declaration that returns has the same former names.
            held = {name: source for name, source in {**record.held, **declared}.items() if name not in aliases}
            sources = frozenset(of_settled[source])
            states_of[record.pair] = State(record, record, names.HIGHEST_RELEASE, held, {}, sources)
        elif before is None:
            states_of[record.pair] = State(record, None, -1, since=(record,))
        else:
            follows = -1 if record.reason == LOST else min(before.follows, record.release)
            differed = before.differed or (before.settled is not None and differs(before.settled, record))
            since = (*before.since, record)
            states_of[record.pair] = replace(before, newest=record, follows=follows, differed=differed, since=since)
    renamed = {pair: before for pair in states_of if (before := _renamed(states_of, pair)) is not None}
    for pair, before in renamed.items():
        since = (*before.since, *states_of[pair].since)
        states_of[pair] = replace(before, newest=states_of[pair].newest, since=since)
    return {
        pair: replace(
            state,
            left_out=left[pair[0], state.newest.declaration["source"]].releases,
            always=frozenset(always.get((pair[0], state.newest.declaration["source"]), ())),
            ever_declared=frozenset(of_source[state.newest.declaration["source"]]),
            names=frozenset(called[state.newest.declaration["source"]]),
        )
        for pair, state in states_of.items()
    }


def differs(one: Record, other: Record) -> bool:
    """Return whether rows that were written by one record's declaration are none of the other's.

    A later declaration may read values otherwise than the rows. Then the rows have other values, and another key if the
    values are part of the key.
    """
    has, needs = one.declaration, other.declaration
    is_as_before = all(has.get(name) == needs.get(name) for name in ("source", "dropped_columns"))
    before, after = {**other.read_before, **one.read_before, **_readings(has)}, _readings(needs)
    is_as_before &= all(_reads_as(after[kind], before[kind]) for kind in before.keys() & after.keys())
    were, are = {**other.types_before, **one.types_before, **types_of(has)}, types_of(needs)
    is_as_before &= all(reads_alike(parse(were[name]), parse(are[name])) for name in were.keys() & are.keys())
    return not is_as_before or _key_sources(has) != _key_sources(needs)


def lacks_values_alone(before: Content, after: Content) -> bool:
    """Return whether an earlier version wrote a declaration, without the options by which values are read."""
    return VALUES not in before and before == {name: value for name, value in after.items() if name != VALUES}


def has_other_key(one: Record, other: Record) -> bool:
    """Return whether two records declare the same source with different key columns.

    The next cycle replaces rows of another source, so that the key of such rows does not matter.
    """
    has, needs = one.declaration, other.declaration
    return bool(has["source"] == needs["source"]) and _key_sources(has) != _key_sources(needs)


def sources_of(content: Content, column: str) -> list[str]:
    """Return the names in the source of a declared column, in lower case, the newest first; [] if there is no column.

    The record of a lake older than records lists only columns that the history has, so a key column may be absent.
    """
    if column not in content["columns"]:
        return []
    return [name.casefold() for name in (content["columns"][column][1], *content.get(ALIASES, {}).get(column, ()))]


def types_of(content: Content) -> dict[str, str]:
    """Return, by each name in the source of a declared column, in lower case, the column's type."""
    return {source: kind for name, (kind, _) in content["columns"].items() for source in sources_of(content, name)}


def find_state(states_of: Mapping[Pair, State], history: str, table: Table) -> State | None:
    """Return the state of a history's member, also of one whose table had another name; None: no record has it."""
    if (state := states_of.get((history, table.name))) is not None:
        return state
    alike = [
        state
        for (name, _), state in states_of.items()
        if name == history and state.newest.declaration["source"] == table.source
    ]
    return max(alike, key=lambda state: (state.newest.status != LEFT_OUT, state.newest.number), default=None)


def _readings(content: Content) -> dict[str, Units | str]:
    """Return, by kind of values, how a declaration reads them in messages without a schema.

    A kind is left out if the declaration has no such column, if an earlier version wrote it, or if it reads no number
    as a time because no option gives the unit.
    """
    values = content.get(VALUES, {})
    times = values.get(TIMES, {})
    units = units_of(*(times.get(name) for name in ("time_unit", "database", "time_precision_mode")))
    of_kinds = {TIMES: units, BYTES: values.get(BYTES, {}).get("binary_mode")}
    return {kind: reading for kind, reading in of_kinds.items() if reading is not None}


def _reads_as(after: Units | str, before: Units | str) -> bool:
    """Return whether values that were read in one way are read as the same values in another way."""
    if isinstance(after, Units) and isinstance(before, Units):
        return after.reads_as(before)
    return after == before


def _key_sources(content: Content) -> list[str]:
    """Return the oldest source names of the declared key columns, in lower case, in the order of the key."""
    return [(sources_of(content, name) or [name])[-1] for name in content["key"]]


def _renamed(states_of: Mapping[Pair, State], pair: Pair) -> State | None:
    """Return the state of the member that a new one of the same history follows: the same source had another name."""
    state = states_of[pair]
    if state.settled is not None or not state.is_open:
        return None
    alike = [
        other
        for (history, _), other in states_of.items()
        if history == pair[0]
        and other.newest.status == LEFT_OUT
        and other.settled is not None
        and other.settled.declaration["source"] == state.newest.declaration["source"]
    ]
    return alike[0] if len(alike) == 1 else None


def read(paths: TablePaths) -> list[Record]:
    """Return all records in the order in which they were entered; [] before there were any."""
    path = paths.table(names.COMPLETENESS)
    rows = small_tables.query(path, "select * from t order by entered")
    return [_record(row) for row in rows]


def _record(row: Mapping[str, Any]) -> Record:
    declaration = json.loads(row["declaration"])
    held, taken_up = declaration.pop(HELD, {}), declaration.pop(SHOWN, None)
    return Record(
        row["table"],
        row["member"],
        row["status"],
        declaration,
        release=row["release"] or 0,
        since_csn=row["since_csn"] or 0,
        reason=row["reason"],
        missing=row["missing"],
        basis=row["entered"] if row["basis"] is None else row["basis"],
        number=row["entered"],
        at=row["at"],
        held=held,
        taken_up=taken_up,
        run_id=row["run_id"],
    )


def append(paths: TablePaths, records: Sequence[Record], run_id: str) -> None:
    """Append records in one commit; nothing for none."""
    if not records:
        return
    now = datetime.now(UTC)
    rows = [
        {
            **{name: value for name, value in vars(record).items() if name not in NOT_STORED},
            "declaration": to_json({**record.declaration, **_stored_beside(record)}),
            "run_id": run_id,
            "at": now,
        }
        for record in records
    ]
    small_tables.append(paths.table(names.COMPLETENESS), rows, COMPLETENESS)


def _stored_beside(record: Record) -> dict[str, Any]:
    """Return the entries that are stored with the declaration of a record."""
    held = {HELD: record.held} if record.held else {}
    return held if record.taken_up is None else {**held, SHOWN: list(record.taken_up)}


def newest_number(records: Sequence[Record]) -> int:
    """Return the number of the newest record; 0 without any."""
    return records[-1].number if records else 0


def declared_pairs(pipeline: Pipeline) -> set[Pair]:
    """Return each history that a pipeline declares with each of its members."""
    aggregates = pipeline.targets.aggregates
    of_documents = {(each.history, name) for each in aggregates for name, _ in schemas.members_of(each)}
    return of_documents | {(mirror.history, mirror.table) for mirror in pipeline.targets.mirrors}


def unsettled(states_of: dict[Pair, State], pairs: Collection[Pair]) -> list[Pair]:
    """Return those of some histories' members that a merge still has to settle, in order."""
    return sorted(pair for pair in pairs if pair in states_of and states_of[pair].is_open)


def present_names(pipeline: Pipeline, known: Iterable[Record]) -> dict[str, str]:
    """Return by name of a table, as events were landed with it, the name that it is declared with now.

    A name that no watched table has any more leads to the table that reads the same source; without one it is left out.

    Args:
        pipeline: the declaration.
        known: the records.
    """
    declared = {table.name: table.name for table in pipeline.tables}
    now = {table.source: table.name for table in pipeline.tables}
    sources = {record.member: record.declaration.get("source") for record in known}
    earlier = {name: now[source] for name, source in sources.items() if name is not None and source in now}
    return earlier | declared
