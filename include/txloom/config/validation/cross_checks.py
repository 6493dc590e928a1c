"""Rules between the parts of a declaration; each check yields all problems that it detects."""

from collections.abc import Iterator
from dataclasses import replace

from txloom.config.models.column_types import KEYLESS
from txloom.config.models.partitions import DATED, MOMENTS, UNFIT, UNITS, Partition, parse_partition
from txloom.config.models.source import EXACT
from txloom.config.problems import Problem, Unfit, listed, named
from txloom.config.validation.draft import Draft, MirrorDraft, TableDraft, shapes
from txloom.config.validation.expectation_checks import check_expectations, outlives_patience
from txloom.config.validation.source_checks import check_snapshots, check_source
from txloom.config.validation.target_names import target_names
from txloom.config.yaml.document import Item

UNORDERED = ("array", "json", "binary", "boolean")
"""Kinds of columns that files cannot be clustered by, because Delta keeps no minimum and maximum of them."""
DECIMAL_PARTITIONS = (
    "Where a table lies by a decimal already, take partition_by out and move the folder of the current table away: the "
    "next merge writes it anew out of its history."
)
"""The hint for a table that an earlier declaration partitioned by a decimal."""


def check(root: Item, file: str, reported: set[str]) -> list[Problem]:
    """Return the problems between the parts of a declaration.

    reported: the paths that have a problem already; rules that depend on their values are skipped.
    """
    draft = Draft(root, file, frozenset(reported))
    problems = [problem for table in draft.shapes for problem in (*_columns(draft, table), *_key(draft, table))]
    problems += [
        *_schedule(draft),
        *check_source(draft),
        *check_snapshots(draft),
        *_table_names(draft),
        *_aggregates(draft),
        *_mirrors(draft),
        *target_names(draft),
        *check_expectations(draft),
        *_alerts(draft),
    ]
    return problems


def _schedule(draft: Draft) -> Iterator[Problem]:
    """Yield a problem where runs would begin both by a schedule and by assets, or audits of nothing by a schedule."""
    audit = draft.root.given("audit")
    schedule = None if audit is None else audit.given("schedule")
    if audit is not None and schedule is not None and audit.given("connection") is None:
        yield draft.problem(schedule, "a connection beside it", "An audit of a folder is started by its form.")
    after = draft.root.given("after")
    if after is not None and after.value and draft.root.given("schedule") is not None:
        yield draft.problem(after, "either schedule or after", value="assets beside a schedule")


def _columns(draft: Draft, table: TableDraft) -> Iterator[Problem]:
    """Yield problems of column names that differ only in case, and of source columns that two columns read."""
    spellings: dict[str, str] = {}
    sources: dict[str, str] = {}
    for name, item in table.columns.items():
        if (again := item.get("name")) is not None:
            yield draft.problem(
                again, "type, source or source_aliases", "The key before it is the name.", "an unknown key"
            )
        if (other := spellings.setdefault(name.casefold(), name)) != name:
            names_shown = f"the column {name!r} beside {other!r}"
            yield draft.problem(item, "names that differ by more than case", value=names_shown)
            continue
        given = draft.word(item, "source") or item
        source = given.value if given is not item else name
        read = [(given, source), *((alias, alias.value) for alias in draft.words(item, "source_aliases"))]
        seen = set[str]()
        for place, source in read:
            owner = sources.setdefault(source.casefold(), name)
            if owner != name or source.casefold() in seen:
                names_shown = f"the source column {repr(name) if place is item else place.shown} again"
                hint = f"The column {named(owner)} reads it."
                yield draft.problem(place, "one column for each source column", hint, names_shown)
            seen.add(source.casefold())


def _key(draft: Draft, table: TableDraft) -> Iterator[Problem]:
    """Yield problems of key and version: undeclared columns, and key columns of a type that cannot be a key."""
    yield from table.columns_of(draft.words(table.item, "key"))
    for column in table.key:
        declared = table.type_of(column.value)
        if declared is not None and declared.kind in KEYLESS:
            expected = f"a column that can be a key, not {listed(KEYLESS)}"
            yield draft.problem(column, expected, value=f"{column.shown} of type {table.shown_type(column.value)}")
    if version := draft.word(table.item, "version"):
        yield from table.columns_of([version])


def _table_names(draft: Draft) -> Iterator[Problem]:
    """Yield problems of tables with the same name or source; sources are compared by short name for GoldenGate.

    Names that differ only in case are two tables for Debezium and wal2json, which send names as the source's catalog
    spells them.
    """
    origin = draft.root.get("source")
    short_names = origin is None or origin.text("format") in (None, "goldengate")
    exact = origin is not None and origin.text("format") in EXACT
    by_name: dict[str, Item] = {}
    by_source: dict[str, Item] = {}
    for table in draft.tables:
        if name := draft.word(table.item, "name"):
            other = by_name.setdefault(name.value.casefold(), name)
            if other is not name:
                yield draft.problem(name, "a name that no other table has", _taken(other))
        if source := draft.word(table.item, "source"):
            short = source.value.rsplit(".", 1)[-1] if short_names else source.value
            other = by_source.setdefault(short if exact else short.casefold(), source)
            if other.path != source.path:
                yield _same_source(draft, source, other)


def _same_source(draft: Draft, source: Item, other: Item) -> Problem:
    if source.value.casefold() == other.value.casefold():
        return draft.problem(source, "a source that no other table has", _taken(other))
    expected = "tables whose short names differ"
    hint = "GoldenGate's metadata counts events by short name: completeness could not tell them apart."
    return draft.problem(source, expected, hint, f"{source.shown} beside {other.shown}")


def _taken(other: Item) -> str:
    return f"{other.path} in line {other.line} has it."


def _aggregates(draft: Draft) -> Iterator[Problem]:
    """Yield problems of aggregates.

    Roots and children must be watched tables, children must hold the root's key, and a document's fields must differ.
    """
    owners: dict[str, Item] = {}
    for aggregate in draft.within("targets", "aggregates"):
        if (name := draft.word(aggregate, "name")) and (other := owners.setdefault(name.value, name)) is not name:
            yield draft.problem(name, "a name that no other aggregate has", _taken(other))
        root = draft.word(aggregate, "root")
        table = draft.table(root) if root else None
        if root:
            yield from draft.unknown_table(root)
        if root and table:
            yield from table.keyless(root)
            yield from table.columns_of(columns := draft.words(aggregate, "zorder"))
            yield from _clustering(draft, table, columns)
            if any(root.value == column.value for column in table.key):
                hint = "The aggregate's history has a field for the root and one for each of its key columns."
                yield draft.problem(root, "a root that is not named like one of its key columns", hint)
        yield from _children(draft, aggregate, root, table)


def _children(draft: Draft, aggregate: Item, root: Item | None, table: TableDraft | None) -> Iterator[Problem]:
    children: dict[str, Item] = {}
    fields = {column.casefold(): f"A column of {table.label}" for column in table.columns} if table else {}
    if root:
        fields.setdefault(root.value.casefold(), "The root")
    for child in aggregate.members("children"):
        name = draft.word(child, "table")
        if name is None:
            continue
        if root is not None and name.value == root.value:
            yield draft.problem(name, "another table than the root")
            continue
        if children.setdefault(name.value, name) is not name:
            yield draft.problem(name, "each table once in an aggregate", value=f"{name.shown} again")
            continue
        yield from draft.unknown_table(name)
        if child_table := draft.table(name):
            yield from child_table.keyless(name)
        if table and child_table:
            yield from table.parent_key(child_table, child)
        field = draft.word(child, "as") or name
        if field.value.casefold() in fields:
            hint = f"{fields[field.value.casefold()]} has this name; give the child another one with `as`."
            yield draft.problem(field, "a field that the document does not have yet", hint)
        fields.setdefault(field.value.casefold(), "Another child")


def _mirrors(draft: Draft) -> Iterator[Problem]:
    """Yield problems of mirrors: each watched table once, clustered and partitioned by columns of a fitting type."""
    seen: set[str] = set()
    for mirror in draft.mirrors:
        if mirror.is_pattern:
            yield from _pattern(draft, mirror)
        elif mirror.name.value in seen:
            yield draft.problem(mirror.name, "each table mirrored once", value=f"{mirror.name.shown} again")
        else:
            yield from draft.unknown_table(mirror.name)
            seen.add(mirror.name.value)
        for table in shapes(mirror.tables):
            yield from _layout(draft, mirror.item, table)


def _pattern(draft: Draft, mirror: MirrorDraft) -> Iterator[Problem]:
    """Yield problems of a pattern: it must match a watched table, and no table that an earlier pattern matches.

    A table that another mirror names belongs to no pattern.
    """
    if not any(map(mirror.matches, draft.table_names)):
        yield draft.problem(mirror.name, "a pattern that a watched table matches")
    for key in ("current", "history"):
        if name := draft.word(mirror.item, key):
            yield draft.problem(name, "no name where a pattern stands for several tables", "Name the table by itself.")
    named = {other.name.value for other in draft.mirrors if not other.is_pattern}
    for other in draft.mirrors[: draft.mirrors.index(mirror)]:
        both = [name for name in draft.table_names if mirror.matches(name) and other.matches(name)]
        both = [name for name in both if name not in named] if other.is_pattern else []
        if both:
            more = f" and {len(both) - 1} more" if len(both) > 1 else ""
            shown = f"{mirror.name.shown} for {both[0]}{more}"
            hint = (
                f"{other.name.path} in line {other.name.line} matches too; a table named by itself belongs to neither."
            )
            yield draft.problem(mirror.name, "a pattern of tables that no other one matches", hint, shown)


def _layout(draft: Draft, mirror: Item, table: TableDraft) -> Iterator[Problem]:
    columns, declared = draft.words(mirror, "zorder"), draft.word(mirror, "partition_by")
    yield from table.columns_of(columns)
    yield from _clustering(draft, table, columns)
    if declared is None:
        return
    try:
        partition = parse_partition(declared.value)
    except Unfit:
        return
    yield from table.columns_of([replace(declared, value=partition.column)])
    if problem := _partitions(draft, declared, partition, table):
        yield problem
    for column in columns if partition.unit is None else ():
        if column.value == partition.column:
            yield draft.problem(column, "another column than the one it is partitioned by")


def _partitions(draft: Draft, declared: Item, partition: Partition, table: TableDraft) -> Problem | None:
    """Return the problem of a partition whose column, or unit of it, does not fit the column's type; else None."""
    kind = table.type_of(partition.column)
    if kind is None:
        return None
    column = replace(declared, value=partition.column).shown
    shown = f"{column} of type {table.shown_type(partition.column)} in {table.label}"
    if partition.unit and kind.kind not in DATED:
        return draft.problem(declared, f"a {listed(DATED)} to take the {partition.unit} of", value=shown)
    if kind.kind in UNFIT:
        hint = DECIMAL_PARTITIONS if kind.kind == "decimal" else ""
        return draft.problem(declared, f"a column to partition by, not {listed(UNFIT)}", hint, shown)
    if kind.kind in MOMENTS and not partition.unit:
        units = listed(f"{unit}({partition.column})" for unit in UNITS)
        return draft.problem(declared, units, "Every moment would be a partition by itself.", shown)
    return None


def _clustering(draft: Draft, table: TableDraft, columns: list[Item]) -> Iterator[Problem]:
    for column in columns:
        declared = table.type_of(column.value)
        if declared and declared.kind in UNORDERED:
            shown = f"{column.shown} of type {table.shown_type(column.value)} in {table.label}"
            yield draft.problem(column, f"a column to cluster by, not {listed(UNORDERED)}", value=shown)


def _alerts(draft: Draft) -> Iterator[Problem]:
    """Yield a problem where stuck_after is not below patience: a transaction would be given up first."""
    alerts = draft.root.get("alerts")
    if alerts is not None and not draft.is_reported(alerts):
        yield from outlives_patience(draft, alerts, "stuck_after", "alert could never come")
