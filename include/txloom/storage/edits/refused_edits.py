"""Edits of a declaration that no rebuild can follow: an existing table holds rows of another kind."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from txloom.config.contents import Content, reading_content, table_content
from txloom.config.load import line_of_column, line_of_key, line_of_table, line_of_target, locate
from txloom.config.models.pipeline import Pipeline, Table
from txloom.config.models.source import EXACT
from txloom.config.problems import Problem
from txloom.errors import ConfigurationError
from txloom.events.source_names import folded
from txloom.storage.declarations import records as r
from txloom.storage.declarations.records import Pair, Record
from txloom.storage.declarations.source_samples import source_samples
from txloom.storage.delta import arrow_tables, schema_evolution, small_tables
from txloom.storage.delta.read_session import exists
from txloom.storage.edits.held_members import HeldMember, Lost, can_hold, find_members
from txloom.storage.landing import landing_plan, loaded_snapshots
from txloom.storage.paths import TablePaths
from txloom.storage.targets import schemas
from txloom.storage.targets.row_tables import partition_columns, row_tables

TABLES = "tables"
"""The key of a declaration with the watched tables."""
KEY, SOURCE = "key", "source"
"""The kinds of refused edits of a watched table's own keys."""
PIPELINE = "pipeline"
"""The kind of refused edits of keys that belong to no table and no target."""
SHOWN = 80
"""The most characters of a value that a message shows."""
OTHER_CSNS = (
    "The lake orders changes by csn, and csns from before and after this edit cannot be compared. Declare a pipeline "
    "of another name: it has its own tables."
)
"""Why an edit that gives changes other csns is refused, and the way out."""
OTHER_FIELD = (
    "Rows landed earlier also have this field, so the edit is not a rename. Later changes would be read differently "
    "from those in the lake. Declare a pipeline of another name: it has its own tables."
)
"""Why an edit that reads another field is refused, and the way out."""
REBUILT = (
    "After the move, the next cycle rebuilds the rows from the messages that are still kept. A table needs a snapshot "
    "if some of its messages are gone."
)
"""What the next cycle does after the folder of a history is moved away."""


@dataclass(frozen=True)
class RefusedEdit:
    """An edit that the next cycle refuses.

    Args:
        kind: `mirrors` or `aggregates`; `tables` if a column was edited; `key` or `source` of a table if it was edited;
            PIPELINE if the edit concerns no table and no target.
        target: the table of the mirror, the name of the aggregate, or the watched table; for PIPELINE, its name.
        key: of the target, what was edited; of a watched table, the column, `key` or `source`; for PIPELINE, the path
            in the declaration.
        value: what it says.
        expected: what it may say.
        hint: the way out.
    """

    kind: str
    target: str
    key: str
    value: str
    expected: str
    hint: str

    @property
    def path(self) -> str:
        """Return where it is in a declaration."""
        if self.kind == PIPELINE:
            return self.key
        if self.kind in (KEY, SOURCE):
            return f"{TABLES}[{self.target}].{self.kind}"
        if self.kind == TABLES:
            return f"{TABLES}[{self.target}].columns.{self.key}"
        return f"targets.{self.kind}[{self.target}].{self.key}"

    def locate(self, file: Path) -> tuple[int, str]:
        """Return line and path in the file of a declaration."""
        if self.kind == PIPELINE:
            return line_of_key(file, self.key)
        if self.kind in (KEY, SOURCE):
            return line_of_table(file, self.target, self.kind)
        if self.kind == TABLES:
            return line_of_column(file, self.target, self.key)
        return line_of_target(file, self.kind, self.target, self.key)


def messages_of(refused: Sequence[RefusedEdit], name_or_file: str) -> str:
    """Return refused edits as messages, one in each line, with file and line where the declaration is found.

    Args:
        refused: the edits.
        name_or_file: the pipeline, as `config.find` takes it.
    """
    try:
        file: Path | None = locate(name_or_file)
    except ConfigurationError:
        file = None
    return "\n".join(_message(each, file, name_or_file) for each in refused)


def _message(edit: RefusedEdit, file: Path | None, name: str) -> str:
    line, path = (1, edit.path) if file is None else edit.locate(file)
    where = f"pipeline {name}" if file is None else str(file)
    problem = Problem(where, line, path, edit.value, edit.expected, edit.hint)
    return str(problem) if file is not None else str(problem).replace(f"{where}:1:", f"{where}:", 1)


def refused_edits(pipeline: Pipeline, paths: TablePaths, known: Sequence[Record]) -> list[RefusedEdit]:
    """Return the edits that the next cycle refuses.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        known: the records, in order.
    """
    others = [*_find_other_csns(pipeline, paths, landing_plan.last_reading(paths))]
    others += [*_other_histories(pipeline, paths, known), *_other_partitions(pipeline, paths)]
    others += _find_fields_in_other_case(pipeline, paths)
    states = r.states(known)
    for table in pipeline.tables:
        members = [*find_members(pipeline, paths, states, table)]
        others += _find_sources_in_other_case(pipeline, table, members)
        others += [*_find_columns_in_other_case(table, members), *_find_other_types(table, members)]
        others += _find_unreadable_texts(paths, table, members)
        others += [*_find_empty_keys(pipeline, paths, table, members)]
        others += [
            *_find_lost_keys(pipeline, paths, table, members),
            *_find_lost_values(pipeline, paths, table, members),
        ]
    return others


def refuse_other_csns(pipeline: Pipeline, paths: TablePaths, landed: Content | None) -> None:
    """Raise ConfigurationError if csns of the source cannot be compared with those that were landed.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        landed: how the newest messages were read; None: nothing was landed, or it is not known.
    """
    if refused := [*_find_other_csns(pipeline, paths, landed)]:
        raise ConfigurationError(messages_of(refused, pipeline.name))


def _find_other_csns(pipeline: Pipeline, paths: TablePaths, landed: Content | None) -> Iterator[RefusedEdit]:
    """Yield the key of the pipeline whose edit gives changes csns, or identities, of another kind.

    Args:
        pipeline: the declaration.
        paths: the tables of the pipeline.
        landed: how the newest messages were read; None: it is not known.
    """
    now = reading_content(pipeline)
    if landed is None or landing_plan.is_read_so(pipeline, landed):
        return
    for key, name in (("source.format", "format"), ("completeness.rule", "rule")):
        if landed.get(name) != now.get(name):
            yield RefusedEdit(PIPELINE, pipeline.name, key, str(now[name]), f"{landed[name]} as before", OTHER_CSNS)
            return
    fields, before = now.get("change_sets", {}), landed.get("change_sets", {})
    named = {name: {(each.get(name) or "").upper() for each in (fields, before)} for name in fields}
    edited = [name for name, names in named.items() if len(names) > 1]
    there = _find_fields_of_rows(paths) if edited else frozenset[str]()
    for name in edited:
        if named[name] - {""} <= there:
            expected = f"{before[name] or 'nothing'} as before"
            key, value = f"source.change_sets.{name}", str(fields[name] or "nothing")
            yield RefusedEdit(PIPELINE, pipeline.name, key, value, expected, OTHER_FIELD)


def _find_fields_of_rows(paths: TablePaths) -> frozenset[str]:
    """Return the names, in upper case, of all fields that sampled rows of change sets have."""
    values = source_samples(paths).column("value").to_pylist()
    return frozenset(name.upper() for value in values if value is not None for name in json.loads(value))


def _other_histories(pipeline: Pipeline, paths: TablePaths, known: Sequence[Record]) -> Iterator[RefusedEdit]:
    """Yield targets whose history holds rows of another target."""
    held = _held(known)
    for aggregate in pipeline.targets.aggregates:
        declared = Held(aggregate.root, pipeline.table(aggregate.root).source, is_root=True)
        if (other := _other(paths, aggregate.history, held, declared)) is not None:
            yield RefusedEdit("aggregates", aggregate.name, "root", aggregate.root, *_way_out(aggregate.history, other))
    for mirror in pipeline.targets.mirrors:
        declared = Held(mirror.table, pipeline.table(mirror.table).source, is_root=False)
        if (other := _other(paths, mirror.history, held, declared)) is not None:
            yield RefusedEdit("mirrors", mirror.table, "history", mirror.history, *_way_out(mirror.history, other))


@dataclass(frozen=True)
class Held:
    """Of what a history holds rows: of a source table alone, or of the transactions of an aggregate with this root.

    table: its name in the lake, or that of the root.
    """

    table: str
    source: str
    is_root: bool

    def follows(self, other: "Held") -> bool:
        """Return whether rows can be written beside those of another: the same table, by its name or its source."""
        return self.is_root == other.is_root and (self.table == other.table or self.source == other.source)

    def __str__(self) -> str:
        """Return it in words."""
        return f"transactions with the root {self.source}" if self.is_root else f"changes of {self.source}"


def _held(known: Sequence[Record]) -> dict[str, dict[Pair, Held]]:
    """Return by history of what its members hold rows; a table that got another source has rows of the new one."""
    states, held = r.states(known), dict[str, dict[Pair, Held]]()
    for pair, state in states.items():
        root = state.newest.declaration.get("root")
        of_root = pair if root is None else (pair[0], root)
        source = states[of_root if of_root in states else pair].newest.declaration["source"]
        held.setdefault(pair[0], {})[pair] = Held(root or pair[1], source, is_root=root is not None)
    return held


def _other(paths: TablePaths, history: str, held: Mapping[str, Mapping[Pair, Held]], declared: Held) -> Held | None:
    """Return of what else than declared an existing history holds rows; None: of nothing else."""
    other = [each for each in held.get(history, {}).values() if not declared.follows(each)]
    return other[0] if other and exists(paths.table(history)) else None


def _way_out(history: str, other: Held) -> tuple[str, str]:
    """Return what an edit may say instead, and how it can stay."""
    return f"{other} as before", f"Give the target another history, or move the folder {history} away. {REBUILT}"


def _other_partitions(pipeline: Pipeline, paths: TablePaths) -> Iterator[RefusedEdit]:
    """Yield mirrors whose current table is partitioned by other columns than the declared ones."""
    for row_table in row_tables(pipeline):
        path = paths.table(row_table.current)
        if row_table.mirror is None or not exists(path):
            continue
        other = schema_evolution.other_partitions(path, row_table.schema, partition_columns(row_table))
        if other is not None:
            lie, say = other
            way_out = schema_evolution.OTHER_PARTITIONS.format(folder=f"the folder {row_table.current}")
            hint = f"The rows of {row_table.current} lie so: {way_out}."
            yield RefusedEdit("mirrors", row_table.mirror.table, "partition_by", say, lie, hint)


def _find_sources_in_other_case(
    pipeline: Pipeline, table: Table, members: Sequence[HeldMember]
) -> Iterator[RefusedEdit]:
    """Yield the source of a table if it is the same as before in another case.

    Debezium and wal2json may send two tables whose names differ only in case, so that this is another source.
    """
    for member in members:
        before = member.state.newest.declaration["source"] if member.state is not None else table.source
        is_same = before != table.source and folded(before) == folded(table.source)
        if is_same and pipeline.source.format not in EXACT:
            hint = f"Messages of {before} match in any case, so that the edit would change nothing."
            yield RefusedEdit(SOURCE, table.name, SOURCE, table.source, f"{before} as before", hint)
            return


def _find_columns_in_other_case(table: Table, members: Sequence[HeldMember]) -> Iterator[RefusedEdit]:
    """Yield columns whose names differ only in case from that of a column in a history.

    Delta treats such names as the same name. A history keeps a column that was removed or renamed.
    """
    for column in table.columns:
        alike = [
            (each.history, name) for each in members for name in schema_evolution.find_alike(column.name, each.types)
        ]
        if alike:
            expected, hint = _in_other_case([history for history, _ in alike], alike[0][1])
            yield RefusedEdit(TABLES, table.name, column.name, f"the name {column.name}", expected, hint)


def _find_fields_in_other_case(pipeline: Pipeline, paths: TablePaths) -> Iterator[RefusedEdit]:
    """Yield members of aggregates whose field names differ only in case from that of a field in the history."""
    for aggregate in pipeline.targets.aggregates:
        if not exists(path := paths.table(aggregate.history)):
            continue
        held = arrow_tables.plain_schema(small_tables.schema_of(path)).names
        for member, field in schemas.members_of(aggregate):
            if alike := schema_evolution.find_alike(field, held):
                expected, hint = _in_other_case([aggregate.history], alike[0])
                key = "root" if member == aggregate.root else "children"
                yield RefusedEdit("aggregates", aggregate.name, key, f"the name {field}", expected, hint)


def _in_other_case(histories: Sequence[str], name: str) -> tuple[str, str]:
    """Return `expected` and `hint` of an edit with a name that differs only in case from one in histories."""
    return f"{name}, or a name that differs in more than case", _describe_move(histories)


def _describe_move(histories: Sequence[str]) -> str:
    """Return as a hint that the folders of histories may be moved away."""
    folders = [*dict.fromkeys(histories)]
    named = f"the folder{'s' if len(folders) > 1 else ''} {' and '.join(folders)}"
    return f"Or move {named} away. {REBUILT}"


def _find_other_types(table: Table, members: Sequence[HeldMember]) -> Iterator[RefusedEdit]:
    """Yield columns with a declared type that does not hold every value that a history may have of them."""
    for column in table.columns:
        held = [(each.history, kind) for each in members if (kind := each.find_type(column)) is not None]
        refused = [(history, kind) for history, kind in held if not can_hold(column, kind)]
        if refused:
            before = schema_evolution.describe_type(refused[0][1])
            expected = f"{before} as before, or a type that holds all its values"
            hint = _describe_move([history for history, _ in refused])
            yield RefusedEdit(TABLES, table.name, column.name, str(column.type), expected, hint)


def _find_unreadable_texts(paths: TablePaths, table: Table, members: Sequence[HeldMember]) -> Iterator[RefusedEdit]:
    """Yield columns with texts in a history that the declared type does not read."""
    for column in table.columns:
        for member in members:
            if (unread := member.find_unreadable(paths, column)) is not None:
                text, csn = unread
                expected = f"a type that reads {text[:SHOWN]!r}, such as string"
                hint = f"{member.history} has this text in csn {csn}. {_describe_move([member.history])}"
                yield RefusedEdit(TABLES, table.name, column.name, str(column.type), expected, hint)
                break


def _find_empty_keys(
    pipeline: Pipeline, paths: TablePaths, table: Table, members: Sequence[HeldMember]
) -> Iterator[RefusedEdit]:
    """Yield the columns of a changed key of which some change in a history has no value.

    A change without a complete key does not identify a row, so no table can be computed from the history. The cycle
    replaces the history only if every message is kept and has a value.
    """
    for member in members:
        before = member.state.settled if member.state is not None else None
        if before is None or not r.has_other_key(before, replace(before, declaration=table_content(pipeline, table))):
            continue
        for column in map(table.column, table.key):
            if member.lacks(paths, column):
                expected = f"a column with a value in every change of {member.history}"
                hint = (
                    "First declare the column without adding it to the key. Add the column to the key after a "
                    "cycle has taken its values from messages. Or give the target another history."
                )
                yield RefusedEdit(TABLES, table.name, column.name, f"{column.type} in the key", expected, hint)


def _find_lost_keys(
    pipeline: Pipeline, paths: TablePaths, table: Table, members: Sequence[HeldMember]
) -> Iterator[RefusedEdit]:
    """Yield the edit to `key: none` of a table that had a key, if its rows were updated or deleted.

    A table without a key takes inserts only, so a cycle can follow the edit only if there are no other changes.
    """
    for member in members:
        before = member.state.settled if member.state is not None else None
        if (
            table.key
            or before is None
            or not r.has_other_key(before, replace(before, declaration=table_content(pipeline, table)))
        ):
            continue
        if (where := member.find_changed_rows(paths)) is not None:
            expected = f"[{', '.join(before.declaration['key'])}] as before"
            hint = (
                f"{where} updates or deletes of rows, but a table without a key takes inserts only. If the source only "
                "inserts rows from now on, give the target another history: the table then needs a snapshot "
                "(jobs/load_snapshot.py)."
            )
            yield RefusedEdit(KEY, table.name, KEY, "none", expected, hint)


def _find_lost_values(
    pipeline: Pipeline, paths: TablePaths, table: Table, members: Sequence[HeldMember]
) -> Iterator[RefusedEdit]:
    """Yield columns that would lose values in a history because their names in the source were edited.

    The edit is accepted if a snapshot of the table was loaded as of a csn above that of the last of these values, and
    the stream has reached its csn. The snapshot has the values of the rows that exist. The load confirms that earlier
    values may be lost.
    """
    for column in table.columns:
        of_members = ((each.history, each.find_lost(paths, table, column)) for each in members)
        losses = [(history, lost) for history, lost in of_members if lost is not None]
        if not losses:
            continue
        history, lost = max(losses, key=lambda loss: loss[1].last_csn)
        if not lost.last_csn < _find_load(pipeline, paths, table) <= (loaded_snapshots.newest(paths) or 0):
            yield RefusedEdit(TABLES, table.name, column.name, *_describe_lost(column.sources, history, lost))


def _find_load(pipeline: Pipeline, paths: TablePaths, table: Table) -> int:
    """Return the csn of a table's newest loaded snapshot, released or not; 0 if there is none."""
    released = loaded_snapshots.loaded(pipeline, paths, loaded_snapshots.ANY, loaded_snapshots.ANY)
    waiting = loaded_snapshots.waiting(pipeline, paths, [table.name])
    return max(released.get(table.name, 0), waiting.get(table.name, 0))


def _describe_lost(sources: Sequence[str], history: str, lost: Lost) -> tuple[str, str, str]:
    """Return `value`, `expected` and `hint` of the refused edit of a column that would lose values."""
    known, (now, *others) = {source.casefold() for source in lost.sources}, sources
    new = [source for source in sources if source.casefold() not in known]
    if new:
        aliases = [each for each in others if each in new] + [each for each in lost.sources if not _is_same(each, now)]
        expected = f"source_aliases: [{', '.join(aliases)}] in addition, if the source renamed the column"
        lacking = _describe_lacking(" or ".join(new), lost)
    else:
        removed = [each for each in lost.sources if not any(_is_same(each, source) for source in sources)]
        expected = f"source {lost.sources[0]} with source_aliases: [{', '.join(lost.sources[1:])}] as before"
        lacking = f"{' and '.join(removed)} would no longer be read"
    hint = (
        f"{history} has values of {' and '.join(lost.sources)} up to csn {lost.last_csn}, but {lacking}: these values "
        "would become null. If the edit names a different column of the source, declare it under another name in the "
        "lake. To give up the values, leave the column out of the declaration for one cycle, then declare it again. To "
        "keep only the current values, load a snapshot of the table (jobs/load_snapshot.py) as of a csn above "
        f"{lost.last_csn}; the stream must have reached the csn of the snapshot."
    )
    return f"source {' or '.join(sources)}", expected, hint


def _describe_lacking(new: str, lost: Lost) -> str:
    """Describe, as part of a sentence, which inserts or messages lack the new names of a column."""
    if lost.is_declared:
        return f"inserts with these values do not have {new}"
    if lost.first_csn is None:
        return f"no message has {new} yet"
    return f"messages have {new} only since csn {lost.first_csn}"


def _is_same(source: str, other: str) -> bool:
    return source.casefold() == other.casefold()
