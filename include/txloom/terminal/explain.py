"""The story of a transaction, and of a row, in a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from txloom.storage.views.paging import Page
from txloom.storage.views.pipeline.waiting import UNDECIDED
from txloom.storage.views.stories import row as keys
from txloom.storage.views.stories import transaction as transactions
from txloom.terminal.status import grid, sections
from txloom.terminal.texts import NOTHING, age, moment, one_value, shown, shown_value, values

STYLES = {"released": "bold green", "waits": "bold yellow", "dead": "bold red", "landed": "bold", "unwatched": "dim"}
OPERATIONS = {"I": "inserted", "r": "loaded", "U": "updated", "D": "deleted", "T": "table truncated"}


def transaction(story: transactions.TransactionStory, title: str, pipeline: str) -> Iterator[RenderableType]:
    """Yield the story of a transaction, or a list of the candidates that an id may mean.

    title: how the request named it.
    """
    if story.story is not None:
        yield from _story(story.story)
        yield Text()
        yield shown(f"as of {moment(story.as_of)}", "dim")
        return
    if not story.total:
        yield shown(f"nothing was ever landed of {title} in pipeline {pipeline}, as of {moment(story.as_of)}")
        return
    columns = ("transaction_id", "csn", "committed_at", "status")
    rows = [[row[name] for name in columns] for row in story.candidates]
    yield grid(f"{title} is {story.total} transactions: ask for one by its id, or by --csn", columns, rows)


def _story(story: transactions.Story) -> Iterator[RenderableType]:
    yield Text.assemble(
        shown(story.transaction_id, "bold"), "  ", shown(story.status, STYLES.get(story.status, "bold")),
        shown(f"  xid {shown_value(story.xid)}, csn {shown_value(story.csn)}, committed {moment(story.committed_at)}"),
    )  # fmt: skip
    if story.waiting is not None:
        waits = f"waits for {age(story.waiting['age_seconds'])} as of {moment(story.waiting['as_of'])}"
        yield shown(f"{waits}: {story.cause or UNDECIDED}")
    elif story.cause:
        yield shown(story.cause)
    if story.hint:
        yield shown(f"do: {story.hint}")
    if story.tables:
        yield shown(f"received of expected: {sections(story.tables)}")
    events = story.events
    yield shown(f"duplicates: {events.duplicates}; events of unwatched tables: {events.unwatched}")
    rows = [[moment(row["at"]), row["what"], row["sentence"]] for row in story.said]
    yield grid("what became of it", ("when", "what", ""), rows)
    if story.letters:
        columns = ("cause", "detail", "events", "open", "dead_at", "hint")
        yield grid("dead letters", columns, [[row[name] for name in columns] for row in story.letters])
    if story.written:
        rows = [[row["table"], row["history"], row["rows"], _keys(row)] for row in story.written]
        yield grid("rows of history", ("table", "history", "rows", "keys"), rows)
    yield from _events(events.page)


def _keys(row: Mapping[str, Any]) -> str:
    more = ", ..." if row["rows"] > len(row["keys"]) else ""
    return ", ".join(f"{each['op']} {values(each['key'])}" for each in row["keys"]) + more


def _events(page: Page) -> Iterator[RenderableType]:
    yield Text()
    yield shown(f"events: {_section(page)}", "bold")
    for row in page.rows:
        table = row["table"] or row["source_table"] or ""
        label = "redriven" if row["redriven"] else {"first": ""}.get(row["came"], row["came"])
        parts_ = [moment(row["landed_at"]), _where(row), row["kind"], table, row["op"], label]
        yield shown("  ".join(str(part) for part in parts_ if part))
        yield shown(f"    {_message(row)}", "dim")


def _message(row: Mapping[str, Any]) -> str:
    unread = f"{row['cause']}: {row['detail']} " if row["cause"] else ""
    return f"{unread}{row['value'] or '(message forgotten)'}"


def _where(row: Mapping[str, Any]) -> str:
    if row["file"] is not None:
        return f"{row['file']}, line {row['line']}"
    return (
        f"{row['topic']}[{row['partition']}] at offset {row['offset']}" if row["offset"] is not None else row["topic"]
    )


def _section(page: Page) -> str:
    return (
        f"{len(page.rows)} of {page.total}, page {page.number} of {page.pages}" if page.pages > 1 else str(page.total)
    )


def key(story: keys.Story) -> Iterator[RenderableType]:
    """Yield every change of a row, the newest first."""
    yield Text.assemble(shown(story.table, "bold"), "  ", shown(values(story.keys[0]), "bold"))
    if len(story.keys) > 1:
        yield shown(f"by key changes also: {'; '.join(values(each) for each in story.keys[1:])}")
    no_row = "no row is known, because its history lacks changes" if story.lacking else "no row"
    now = values(_system_columns(story.current)) if story.current else no_row
    yield shown(f"now, as of valid-through {story.current_through}: {now}")
    if story.cleaned:
        yield shown(f"below csn {story.cleaned} maintenance took superseded changes away")
    yield from map(shown, story.lacking)
    yield Text()
    yield shown(f"changes, the newest first: {_section(story.page)}, as of {moment(story.page.as_of)}", "bold")
    for row in story.page.rows:
        yield from _change(row)


def _system_columns(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {name: value for name, value in row.items() if not name.startswith("_txloom_")}


def _change(row: Mapping[str, Any]) -> Iterator[RenderableType]:
    hidden = "" if row["is_shown"] else "  (above valid-through: readers do not see it yet)"
    key = f" {values(row['key'])}" if row["key"] else ""
    operation = OPERATIONS.get(row["op"], row["op"])
    head = f"csn {row['csn']}  {moment(row['committed_at'])}  xid {shown_value(row['xid'])}  {row['table']}{key} "
    yield Text()
    yield Text.assemble(shown(head), shown(operation, "bold"), Text(hidden, style="yellow"))
    if row["old_key"]:
        yield shown(f"  was {values(row['old_key'])}")
    if row["op"] == "U":
        before, after = row["before"] or {}, row["after"] or {}
        for name in row["changed"]:
            yield shown(f"  {name}: {one_value(before[name])} -> {one_value(after[name])}")
        if row["unknown"]:
            known = {name: after[name] for name in row["unknown"] if name in after}
            yield shown(f"  earlier values unknown: {values(known)}")
        if not row["changed"] and not row["unknown"]:
            yield shown("  no column changed")
    elif row["op"] != "T":
        yield shown(f"  {values(row['after'] if row['after'] is not None else row['before']) or NOTHING}")
