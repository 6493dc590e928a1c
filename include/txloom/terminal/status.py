"""The state of pipelines in a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from txloom.config.problems import counted
from txloom.storage.views.paging import Page
from txloom.storage.views.pipeline.changes import ACT, CUTS, MOVED, OVER, Changes
from txloom.storage.views.pipeline.overview import Health, Overview, Reason
from txloom.storage.views.pipeline.waiting import Waiting
from txloom.terminal.texts import COLORS, age, ago, moment, shown, shown_value, values

SAMPLE = 5
"""Rows of a sample that are shown."""
HEADINGS = {"unreadable_since": "unreadable since"}
"""Headings of columns that are stored under another name."""
TITLES = {"edits": "rebuilt after edits of the declaration"}
"""Titles of lists that the read model calls otherwise."""
TO_THE_END = "the end"


def grid(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> RenderableType:
    """Return a titled table whose cells are literal text; without rows only the title."""
    head = [Text(), shown(title, "bold")]
    if not rows:
        return Group(*head)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*(each if isinstance(each, Text) else shown(each) for each in row))
    return Group(*head, table)


def overview(pipelines: Overview) -> RenderableType:
    """Return a table of all pipelines, the worst first."""
    if not pipelines.rows:
        return Text("No pipeline is declared.")
    counts = ", ".join(f"{count} {color}" for color, count in pipelines.counts.items() if count)
    columns = ("", "pipeline", "why", "readers see", "waiting", "dead letters", "cut", "as of")
    rows = [_overview_row(each, pipelines.as_of) for each in pipelines.rows]
    drawn = grid(f"{counted(len(rows), 'pipeline')}: {counts}; {moment(pipelines.as_of)}", columns, rows)
    news = {each.pipeline: pipelines.changes.get(each.pipeline) for each in pipelines.rows}
    said = [name for name, each in news.items() if each and any(row.urgency != MOVED for row in each.rows)]
    return Group(
        drawn,
        *(changes(pipelines.changes[name], pipelines.as_of, f"{name}: ") for name in said),
        *_calm_ones(pipelines, said),
    )


def _calm_ones(pipelines: Overview, said: Sequence[str]) -> Iterator[RenderableType]:
    """Yield what the pipelines did of which nothing else is said."""
    others = [each for name, each in pipelines.changes.items() if name not in said]
    if others:
        cuts = sum(row.count for each in others for row in each.rows if row.kind == CUTS)
        only = "" if not said else "other "
        what = f"{counted(len(others), f'{only}pipeline')}: {counted(cuts, 'cut')} published since"
        yield Group(Text(), shown(f"{what} {moment(others[0].since)}, and nothing else happened"))


URGENCIES = {ACT: ("new", COLORS["red"]), OVER: ("over", COLORS["green"]), MOVED: ("", "")}


def changes(news: Changes, now: datetime, name: str = "") -> RenderableType:
    """Return what changed, what somebody has to act on first; name: what the title begins with."""
    rows = [[Text(*URGENCIES[row.urgency]), row.what, ago(row.at, now), row.detail] for row in news.rows]
    since = f"since {moment(news.since)}"
    if not rows:
        return shown(f"{name}nothing changed {since}", "bold")
    return grid(f"{name}what changed {since}", ("", "what", "when", "more"), rows)


def _overview_row(each: Health, now: datetime) -> list[Any]:
    more = f" (and {len(each.reasons) - 1} more)" if len(each.reasons) > 1 else ""
    first = each.reasons[0] if each.reasons else None
    return [
        shown(each.color, COLORS[each.color]),
        each.pipeline,
        _calm(each) if first is None else f"{_kind(first)}: {first.what}{more}",
        _seen(each),
        each.waiting,
        each.dead_letters,
        f"{each.cut_id}, {ago(each.published_at, now)}" if each.cut_id is not None else None,
        ago(each.as_of, now),
    ]


def _calm(each: Health) -> str:
    return "nothing was landed yet" if each.empty_at else "nothing is wrong"


def _kind(reason: Reason) -> str:
    return f"{reason.kind} {reason.subject}" if reason.subject else reason.kind


def _seen(each: Health) -> str:
    if each.valid_through is None:
        return "nothing yet"
    return f"csn {each.valid_through}, {age(each.age_seconds)} old"


CUT_COLUMNS = ("cut", "valid-through", "committed", "published", "gaps", "leaves out", "run")
TAKEN_OVER = "its process is gone, or hangs; the next run takes over"


def one(panels: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield everything about one pipeline, what is wrong first; panels: see `txloom.terminal.commands.panels`."""
    each: Health = panels["health"]
    now = datetime.now(UTC)
    about = f"  {shown_value(each.description)}" if each.description else ""
    yield Text.assemble(shown(each.color, COLORS[each.color]), "  ", shown(each.pipeline, "bold"), about)
    yield Text(f"as of {moment(each.as_of)}" if each.as_of else "nothing was landed yet", style="dim")
    if each.empty_at:
        yield shown(
            f"no table lies in {each.empty_at}: where it ran before, look whether the warehouse is the right one"
        )
    yield Text(f"readers see: {_seen(each)}, committed {moment(each.committed_at)}")
    if each.lease is not None:
        held = f"run {each.lease['run_id']} ({each.lease['step']})"
        yield shown(f"{held} holds the lease since {moment(each.lease['acquired_at'])}")
        if each.lease["silent_since"] is not None:
            yield shown(f"  no sign of life since {moment(each.lease['silent_since'])}: {TAKEN_OVER}")
    if "changes" in panels:
        yield changes(panels["changes"], now)
    for reason in each.reasons:
        yield _reason(reason, now)
    yield from expectations(panels["expectations"])
    yield from waiting(panels["waiting"])
    yield from dead_letters(panels["letters"])
    yield from _lists(panels, now)


def _reason(reason: Reason, now: datetime) -> RenderableType:
    style = COLORS[{"error": "red", "warn": "amber"}.get(reason.severity, "grey")]
    since = f" (since {moment(reason.since)}, {ago(reason.since, now)})" if reason.since else ""
    lines = [Text(), Text.assemble(shown(_kind(reason), style), shown(f": {reason.what}{since}"))]
    lines += [shown(f"  {row}") for row in reason.rows]
    return Group(*lines, shown(f"  do: {reason.todo}"))


def _title(name: str, page: Page) -> str:
    part = f"{len(page.rows)} of {page.total}" if page.total > len(page.rows) else str(page.total)
    return f"{name}: {part}, as of {moment(page.as_of)}"


def expectations(page: Page) -> Iterator[RenderableType]:
    """Yield all expectations, with rows of those that fail, and the reason of those that were not judged."""
    words = {True: ("passes", COLORS["green"]), False: ("fails", COLORS["red"])}
    columns = ("", "expectation", "severity", "failed of", "since", "last good", "in a row", "what must hold")
    rows = [
        [
            shown(*words.get(row["success"], (_unjudged(row), COLORS["grey"]))),
            *(row["expectation"], row["severity"]),
            None if row["success"] is None else f"{row['failed']} of {row['checked']}",
            *(row["since"], row["last_good"], row["streak"], row["sentence"]),
        ]
        for row in page.rows
    ]
    yield grid(_title("expectations", page), columns, rows)
    for row in page.rows:
        for sample in row["sample"][:SAMPLE] if row["success"] is False else ():
            yield shown(
                f"  {row['expectation']}: {values(sample) if isinstance(sample, dict) else shown_value(sample)}"
            )
        if row["success"] is False:
            yield shown(f"  do: {row['hint']}")
        if row["success"] is None and row["checked_at"] is not None:
            yield shown(f"  {row['expectation']}: {row['detail']}")


def _unjudged(row: Mapping[str, Any]) -> str:
    return "not checked yet" if row["checked_at"] is None else "not judged"


def waiting(listing: Waiting) -> Iterator[RenderableType]:
    """Yield the transactions that wait, and what for."""
    columns = ("transaction", "csn", "waits", "cause", "tables, received of expected")
    rows = [
        [row["transaction_id"], row["csn"], age(row["age_seconds"]), row["cause"], sections(row["tables"])]
        for row in listing.page.rows
    ]
    causes = f" ({shown_value(listing.causes)})" if listing.causes else ""
    yield grid(_title("waiting transactions", listing.page) + causes, columns, rows)


def sections(tables: Sequence[Mapping[str, Any]]) -> str:
    """Return by table how many rows were received of those expected; a question mark where that is unknown.

    >>> sections([{"table": "lines", "expected": None, "received": 1}])
    'lines 1/?'
    """
    return ", ".join(
        f"{row['table']} {row['received']}/{'?' if row['expected'] is None else row['expected']}" for row in tables
    )


def dead_letters(letters: Any) -> Iterator[RenderableType]:
    """Yield open dead letters by cause."""
    listing = letters.listing
    rows = [[g.cause, g.events, g.transactions, g.since, "; ".join(g.examples), g.hint] for g in listing.groups]
    title = f"dead letters: {listing.events} of {listing.transactions} transactions"
    yield grid(title, ("cause", "events", "transactions", "since", "such as", "what to do"), rows)
    if listing.events:
        yield shown(f"  redrive or dismiss: run the DAG {letters.dag_id}")


def _lists(panels: Mapping[str, Any], now: datetime) -> Iterator[RenderableType]:
    """Yield cuts, runs, and those of the other lists that are not empty."""
    cuts = [
        [
            row["cut_id"],
            row["valid_through"],
            row["committed_at"],
            ago(row["published_at"], now),
            row["gap_count"],
            ", ".join(row["left_out"]),
            row["run_id"],
        ]
        for row in panels["cuts"].rows
    ]
    yield grid(_title("cuts", panels["cuts"]), CUT_COLUMNS, cuts)
    runs = [
        [row["run_id"], ago(row["ended"], now), row["balanced"], _steps(row["steps"])] for row in panels["runs"].rows
    ]
    yield grid(_title("runs", panels["runs"]), ("run", "ended", "balanced", "steps"), runs)
    seldom = {
        "findings": ("severity", "code", "table", "column", "since_csn", "evidence", "hint"),
        "partitions": ("topic", "partition", "csn", "at", "unreadable_since"),
        "backfills": ("run_id", "status", "at", "from_csn", "to_csn", "counts"),
        "edits": ("run_id", "what", "at"),
        "holds": ("reader", "cut_id", "since", "until"),
        "histories": ("history", "table", "status", "since_csn", "reason", "missing", "at"),
        "incidents": ("severity", "kind", "subject", "opened_at", "closed_at", "what"),
    }
    for name, columns in seldom.items():
        page: Page = panels[name]
        if page.total and not (name == "histories" and page.rows[0]["is_complete"]):
            headings = [HEADINGS.get(column, column) for column in columns]
            rows = [[_cell(row, column) for column in columns] for row in page.rows]
            yield grid(_title(TITLES.get(name, name), page), headings, rows)


def _cell(row: Mapping[str, Any], column: str) -> Any:
    is_open = column == "to_csn" and row["from_csn"] is not None and row["to_csn"] is None
    return TO_THE_END if is_open else row[column]


def _steps(steps: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{row['step']} ({shown_value({n: c for n, c in row['counts'].items() if c})})" for row in steps)
