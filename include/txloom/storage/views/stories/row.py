"""The story of a row, or of a document: every change of a key with the row before and after it, newest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from txloom.config.models.pipeline import Pipeline
from txloom.quality import masking
from txloom.storage.declarations import records
from txloom.storage.declarations.incomplete import describe_lacking
from txloom.storage.declarations.undeclared_columns import effective_pipeline
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import sql_name
from txloom.storage.edits.pending_edits import refuse_pending, refuse_renamed_keys
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import watermark_of
from txloom.storage.targets import history_reader
from txloom.storage.views.paging import Page, Row, last_step, limits, open_tables
from txloom.storage.views.stories import row_changes
from txloom.storage.views.stories.row_lookup import Member, RowQuestion, equal, kinds, read_key, row_question
from txloom.storage.views.stories.row_states import with_states

SHOWN = 50
KEYS, CHILDREN = 20, 500
"""Keys that are followed where a row changes its key, and a document's children whose deletes are searched."""
BEFORE = 200
"""Older changes that are read to know the row before the oldest change of a page."""


@dataclass(frozen=True)
class Story:
    """The changes of a key, the newest first.

    keys: the requested one, and all that it had before or got later by key changes. page: table, op, csn, xid, pos,
    committed_at, release, landing, key and old_key (of a key change), before and after (None: no row; a column whose
    value is unknown is left out), changed (columns), unknown (of an update: columns whose value before it is unknown),
    is_shown (at or below valid-through). A truncate has no key. current: the row or document in the current table;
    None: none. current_through: its valid-through. cleaned: the csn below which maintenance removed superseded changes;
    0: every change is kept. lacking: a sentence for each member whose history lacks changes, because its declaration
    changed.
    """

    table: str
    keys: list[Row]
    page: Page
    current: Row | None
    current_through: int
    cleaned: int
    lacking: Sequence[str] = ()


@open_tables
def key_story(
    pipeline: Pipeline,
    warehouse: str,
    table: str,
    key: Mapping[str, str],
    *,
    number: int = 1,
    size: int = SHOWN,
) -> Story:
    """Return the story of a key, given as text, of a watched table, a mirror, or an aggregate's documents.

    Raises:
        ConfigurationError: an unknown table or key column, a value that its type does not allow, or a key that the
            histories have under other names until the next cycle.
        BeforeHistory: the next cycle has yet to bring the histories to the declaration of the table.
    """
    limits(number, size)
    paths = TablePaths(warehouse, pipeline.name)
    question = row_question(effective_pipeline(pipeline, paths), table)
    read_tables = [member.row_table for member in question.members]
    refuse_renamed_keys(pipeline, paths, {(each.history, each.table.name) for each in read_tables})
    refuse_pending(pipeline, paths, records.states(records.read(paths)), read_tables)
    row_key = read_key(question, key)
    begin, reached = (number - 1) * size, history_reader.known(paths)
    most = begin + size + BEFORE
    keys, history, total = _changes(paths, question, row_key, most)
    history.sort(key=lambda row: tuple(row[name] or 0 for name in ("csn", "pos", "landing", "row")))
    steps = with_states(history[-most:], {member.table.name: member.table for member in question.members})[::-1]
    secret = masking.secret_names(pipeline)
    for row in steps:
        row |= {name: row[name] and masking.hidden(row[name], secret) for name in ("before", "after")}
    page = [
        {**row, "is_shown": row["csn"] <= reached.valid_through and row["release"] <= reached.release}
        for row in steps[begin : begin + size]
    ]
    path = paths.table(question.current)
    same = equal([sql_name(name) for name in question.key], list(row_key.values()), kinds(question.root, question.key))
    current = small_tables.query(path, f"select * from t where {same} limit 1")
    return Story(
        question.current,
        keys,
        Page(page, total, number, size, last_step(paths)),
        masking.hidden(current[0], secret) if current else None,
        watermark_of(path).valid_through,
        max(history_reader.cleaned(paths, member.row_table) for member in question.members),
        describe_lacking(paths, read_tables),
    )


def _changes(paths: TablePaths, what: RowQuestion, row_key: Row, most: int) -> tuple[list[Row], list[Row], int]:
    """Return the keys of a story, its newest changes, and how many there are; no changes for a key that never came."""
    root, *children = what.members
    keys, followed = [row_key], 0
    while followed < len(keys):
        followed = len(keys)
        changes_read, total = row_changes.newest(paths, root, row_changes.of_keys(root, what.key, keys), most)
        keys = _linked(keys, changes_read, what)
    for member in children:
        rows, count = _children(paths, what, member, keys, most)
        changes_read, total = [*changes_read, *rows], total + count
    if all(row["op"] == "T" for row in changes_read):
        return keys, [], 0
    return keys, changes_read, total


def _linked(keys: list[Row], changes_read: list[Row], what: RowQuestion) -> list[Row]:
    """Return the keys with those that key changes lead from and to, at most KEYS."""
    linked = list(keys)
    for row in changes_read if changes_read and what.members[0].is_root else ():
        if row["op"] == "U" and row["before"] is not None:
            after = {name: row["image"][name] for name in what.key}
            known = {name: row["before"][name] for name in row["before_known"] or () if name in what.key}
            for each in (after, after | known):
                if each not in linked and len(linked) < KEYS:
                    linked.append(each)
    return linked


def _children(
    paths: TablePaths, what: RowQuestion, member: Member, keys: list[Row], most: int
) -> tuple[list[Row], int]:
    """Return the changes of a child table below some parents, also deletes whose event does not hold the parent."""
    changes_read, total = row_changes.newest(paths, member, row_changes.of_keys(member, what.key, keys), most)
    latest = {
        tuple(row["image"][name] for name in member.table.key): row["image"] for row in changes_read if row["op"] != "T"
    }
    if not latest or member.is_root:
        return changes_read, total
    of_lost, aggregate = row_changes.of_lost(member, list(latest.values())[:CHILDREN]), member.row_table.aggregate
    parentless = f'"{what.key[0]}" is null' if aggregate is not None and aggregate.current == what.current else "true"
    lost, more = row_changes.newest(paths, member, of_lost, most, parentless)
    return [*changes_read, *lost], total + more
