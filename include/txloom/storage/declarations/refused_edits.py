"""Edits of a declaration that no rebuild can follow: an existing table holds rows of another kind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from txloom.config.load import line_of_target, locate
from txloom.config.models.pipeline import Pipeline
from txloom.config.problems import Problem
from txloom.errors import ConfigurationError
from txloom.storage.declarations import records as r
from txloom.storage.declarations.records import Pair, Record
from txloom.storage.delta import schema_evolution
from txloom.storage.delta.read_session import exists
from txloom.storage.paths import TablePaths
from txloom.storage.targets.row_tables import partition_columns, row_tables


@dataclass(frozen=True)
class RefusedEdit:
    """An edit that the next cycle refuses.

    Args:
        kind: `mirrors` or `aggregates`.
        target: the table of the mirror, or the name of the aggregate.
        key: of the target, what was edited.
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
        return f"targets.{self.kind}[{self.target}].{self.key}"


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
    line, path = (1, edit.path) if file is None else line_of_target(file, edit.kind, edit.target, edit.key)
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
    return [*_other_histories(pipeline, paths, known), *_other_partitions(pipeline, paths)]


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
    return f"{other} as before", f"Give the target another history, or move the folder {history} away."


def _other_partitions(pipeline: Pipeline, paths: TablePaths) -> Iterator[RefusedEdit]:
    """Yield mirrors whose current table is partitioned by other columns than the declared ones."""
    for row_table in row_tables(pipeline):
        path = paths.table(row_table.current)
        if row_table.mirror is None or not exists(path):
            continue
        other = schema_evolution.other_partitions(path, row_table.schema, partition_columns(row_table))
        if other is not None:
            lie, say = other
            hint = f"The rows of {row_table.current} lie so: {schema_evolution.OTHER_PARTITIONS}."
            yield RefusedEdit("mirrors", row_table.mirror.table, "partition_by", say, lie, hint)
