"""The story of a transaction: when each of its events came, what it waits for, and what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from txloom.config import names
from txloom.config.models.durations import show_duration
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.events.envelope import OF_AHEAD
from txloom.quality import masking
from txloom.quality.incidents import moment
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.dead_letters import dismissals, open_letters
from txloom.storage.dead_letters.hints import hints_for
from txloom.storage.declarations.incomplete import feeding
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import text_literal
from txloom.storage.edits.pending_edits import refuse_renamed_keys
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import Row, last_step, limits, open_tables
from txloom.storage.views.pipeline.waiting import UNDECIDED, compared
from txloom.storage.views.stories.landed_messages import Landed, landed
from txloom.storage.views.stories.released_rows import first_cut, written
from txloom.transactions import metadata
from txloom.transactions.causes import COMPLETE
from txloom.transactions.completeness import BEHIND, NO_METADATA, SHORT

RELEASED, WAITS, DEAD, LANDED, UNWATCHED = "released", "waits", "dead", "landed", "unwatched"
"""The status of a transaction; landed: the buffer has not decided yet; unwatched: it changed no watched table."""
CANDIDATES = 50
"""Transactions that are listed where an id belongs to several; the total counts all of them."""
SHOWN = 100
"""Events of a page."""


@dataclass(frozen=True)
class Story:
    """One transaction. What is unknown is None; lists and counts without entries are empty or 0.

    status: released, waits, dead, landed, unwatched. said: what happened to it, the earliest first: at, what (landed,
    metadata, waits, dead, complete now, redriven, dismissed, released, shown, not shown), and a sentence. tables:
    table, expected (None: no metadata), received (distinct events), differs. metadata: every message that came.
    waiting: since, age_seconds, cause, as_of. letters: cause, detail, events, open (how many still are), dead_at, hint.
    events: a page of its messages, see `landed_messages.Landed`. written: table, history, rows, and the first keys.
    cut: the first that showed it.
    """

    transaction_id: str
    xid: str | None
    csn: int | None
    committed_at: datetime | None
    status: str
    cause: str | None
    hint: str | None
    said: list[Row]
    tables: list[Row]
    metadata: list[Row]
    waiting: Row | None
    letters: list[Row]
    events: Landed
    written: list[Row]
    cut: Row | None


@dataclass(frozen=True)
class TransactionStory:
    """The result for an id: one story, or the candidates where several transactions have the id; total 0: none has it.

    candidates: transaction_id, xid, csn, committed_at, status; total counts all of them.
    """

    story: Story | None
    candidates: list[Row]
    total: int
    as_of: datetime | None


@open_tables
@dataclass(frozen=True)
class TransactionName:
    """Exactly one of the names of a transaction: its xid, its csn, or its id in txloom's tables.

    Raises ConfigurationError for none and for several.
    """

    xid: str | None = None
    csn: int | None = None
    transaction_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse none and several."""
        if sum(each is not None for each in (self.xid, self.csn, self.transaction_id)) != 1:
            raise ConfigurationError("which transaction? give one of xid, csn and transaction_id")


def transaction(
    pipeline: Pipeline, warehouse: str, name: TransactionName, *, number: int = 1, size: int = SHOWN
) -> TransactionStory:
    """Return the story of a transaction; number, size: the page of its events.

    Raises ConfigurationError for a key that the histories have under other names until the next cycle.
    """
    limits(number, size)
    paths = TablePaths(warehouse, pipeline.name)
    refuse_renamed_keys(pipeline, paths, feeding(pipeline).values())
    candidates = _candidates(paths, name)
    as_of = last_step(paths)
    if len(candidates) != 1:
        return TransactionStory(None, candidates[:CANDIDATES], len(candidates), as_of)
    return TransactionStory(_story(pipeline, paths, candidates[0], number, size), candidates, 1, as_of)


def _candidates(paths: TablePaths, name: TransactionName) -> list[Row]:
    """Return the transactions of a name: those that finished or wait; without any, those that were only landed."""
    texts = {"xid": name.xid, "transaction_id": name.transaction_id}
    where = " and ".join(f"{column} = {text_literal(text)}" for column, text in texts.items() if text is not None)
    where = where or f"csn = {name.csn}"
    by_id: dict[str, Row] = {}
    columns = "transaction_id, xid, csn, committed_at"
    order = "order by status desc, release desc"
    newest = f"select {columns}, status, row_number() over (partition by transaction_id {order}) as n"
    finished = f"select {columns}, status from ({newest} from t where {where}) where n = 1"
    waiting = f"select {columns}, '{WAITS}' as status from t where {where}"
    for table, sql in ((names.TRANSACTIONS, finished), (names.PENDING_TRANSACTIONS, waiting)):
        for row in small_tables.query(paths.table(table), sql):
            by_id.setdefault(row["transaction_id"], row)
    if not by_id:
        by_id = {row["transaction_id"]: row for row in _only_landed(paths, where)}
    return sorted(by_id.values(), key=lambda row: (row["csn"] is None, row["csn"], row["transaction_id"]))


def _only_landed(paths: TablePaths, where: str) -> list[Row]:
    """Return transactions that are not decided: the buffer has not read them, they are unwatched, or unreadable."""
    named = "coalesce(transaction_id, concat(xid, ':', csn))"
    watched = f"bool_or(\"table\" is not null or kind = 'metadata' or detail = {text_literal(OF_AHEAD)})"
    columns = f"{named} as transaction_id, max(xid) as xid, max(csn) as csn, max(committed_at) as committed_at"
    condition = f"{where} and kind in ('row', 'metadata', 'marker', 'poison') and {named} is not null"
    sql = f"select {columns}, {watched} as watched, bool_and(kind = 'poison') as poison, max(landing) as landing"
    rows = small_tables.query(paths.change_events, f"{sql} from t where {condition} group by 1")
    seen = buffer_state(paths)
    return [_undecided(row, seen.landing if seen else 0) for row in rows]


def _undecided(row: Row, seen: int) -> Row:
    watched, poison, landing = (row.pop(name) for name in ("watched", "poison", "landing"))
    status = DEAD if poison else LANDED if watched or landing > seen else UNWATCHED
    return {**row, "status": status}


def _story(pipeline: Pipeline, paths: TablePaths, about: Row, number: int, size: int) -> Story:
    identity, csn = about["transaction_id"], about["csn"]
    finished = _finished(paths, identity)
    waits = _waiting(paths, identity)
    messages = landed(paths, identity, about["xid"], csn, number=number, size=size)
    secret = masking.secret_names(pipeline)
    for row in messages.page.rows:
        row["value"] = None if row["value"] is None else masking.message(row["value"], secret)
    of_transaction = _of_this_transaction(identity, about["xid"], csn)
    hints = hints_for(pipeline.source.format)
    dead_letters = _dead_letters(paths, of_transaction, hints)
    dismissed = dismissals.of_dead_letters(paths, of_transaction) if dead_letters else []
    released = next((row for row in finished if row["status"] == RELEASED), None)
    cut = first_cut(paths, csn, released["release"]) if released else None
    cause = waits["cause"] if waits else None
    if not released and not waits:
        cause = next((row["cause"] for row in reversed(finished)), dead_letters[0]["cause"] if dead_letters else None)
    return Story(
        **{name: about[name] for name in ("transaction_id", "xid", "csn", "committed_at")},
        status=RELEASED if released else WAITS if waits else about["status"],
        cause=cause,
        hint=_describe_wait(pipeline, waits, hints) if waits and not released else hints.get(cause or ""),
        said=_said(messages, finished, waits, dismissed, cut) + ([] if cut or not released else [_unshown(paths)]),
        tables=_tables(messages, waits),
        metadata=messages.metadata,
        waiting=None if waits is None else {name: waits[name] for name in ("since", "age_seconds", "cause", "as_of")},
        letters=dead_letters,
        events=messages,
        written=written(pipeline, paths, csn, about["xid"]) if released and csn is not None else [],
        cut=cut,
    )


def _describe_wait(pipeline: Pipeline, waits: Row, hints: Mapping[str, str]) -> str:
    """Return what a transaction waits for, until when, and what happens then.

    Args:
        pipeline: the declaration.
        waits: the row of `pending_transactions`.
        hints: by cause, what to do about it; of a cause that no time ends, the hint says what to look at.
    """
    cause, completeness = waits["cause"], pipeline.completeness
    if cause == BEHIND or (completeness.rule == "progress" and waits["expected"] is None):
        return hints[BEHIND]
    what = "the rest of its messages" if cause is None else f"messages that resolve its cause: {cause}"
    if cause == NO_METADATA:
        what = "its metadata"
    short = [row for row in compared(waits["expected"], waits["received"]) if (row["expected"] or 0) > row["received"]]
    if cause == SHORT and short:
        what = ", ".join(f"{_many(row['expected'] - row['received'], 'row')} of {row['table']}" for row in short)
    patience = show_duration(completeness.patience)
    until = f"its patience of {patience} has passed"
    if waits["since"] is not None:
        until = f"{moment(waits['since'] + completeness.patience)} ({patience} of patience)"
    return (
        f"The transaction waits for {what} until the first cycle after {until}. If the source sends this by then, no "
        "action is needed: look whether its producer runs. Otherwise, the transaction becomes dead letters."
    )


def _finished(paths: TablePaths, identity: str) -> list[Row]:
    """Return the decisions on a transaction, in their order."""
    columns = "status, cause, rows, first_landed_at, finished_at, release"
    order = f"order by release, {open_letters.LAST} desc, finished_at"
    sql = f"select {columns} from t where transaction_id = {text_literal(identity)} {order}"
    return small_tables.query(paths.table(names.TRANSACTIONS), sql)


def _waiting(paths: TablePaths, identity: str) -> Row | None:
    columns = "first_landed_at as since, age_seconds, cause, expected, received, as_of"
    sql = f"select {columns} from t where transaction_id = {text_literal(identity)}"
    return next(iter(small_tables.query(paths.table(names.PENDING_TRANSACTIONS), sql)), None)


def _of_this_transaction(identity: str, xid: str | None, csn: int | None) -> str:
    """Return the SQL condition for the dead letters of a transaction."""
    where = f"transaction_id = {text_literal(identity)}"
    if xid is None or csn is None:
        return where
    return f"({where} or (kind = 'poison' and csn = {csn} and xid = {text_literal(xid)}))"


def _dead_letters(paths: TablePaths, where: str, hints: Mapping[str, str]) -> list[Row]:
    """Return a transaction's dead letters by cause, and how many of them are still open."""
    sums = "cause, min(detail) as detail, count(*) as events, min(dead_at) as dead_at"
    rows = small_tables.query(
        paths.dead_letters, f"select {sums} from t where {where} group by cause order by dead_at, cause"
    )
    if not rows:
        return []
    left = open_letters.open_dead_letters(paths, "cause, count(*) as n", f"where {where} group by cause").to_pylist()
    still = {row["cause"]: row["n"] for row in left}
    return [{**row, "open": still.get(row["cause"], 0), "hint": hints.get(row["cause"])} for row in rows]


def _tables(messages: Landed, waits: Row | None) -> list[Row]:
    """Return expected and received rows by table: by the buffer while it holds the transaction, else as landed."""
    if waits is not None:
        return compared(waits["expected"], waits["received"])
    newest = metadata.newest(
        {"landing": at, "row": 0, "expected": row["expected"]} for at, row in enumerate(messages.metadata)
    )
    return compared(None if newest is None else newest["expected"], messages.received)


def _said(
    messages: Landed, finished: Sequence[Row], waits: Row | None, dismissed: Sequence[Row], cut: Row | None
) -> list[Row]:
    """Return what happened to a transaction, the earliest first, each with a sentence."""
    entries: list[tuple[datetime | None, int, str, str]] = []
    for row in messages.landings:
        what = "redriven" if row["redriven"] else "landed"
        opening = f"{_many(row['events'], 'event')} landed with landing {row['landing']}"
        entries.append((row["landed_at"], 0, what, f"{opening}, redriven." if row["redriven"] else f"{opening}."))
    for row in messages.metadata:
        counts = ", ".join(f"{table} {count}" for table, count in sorted((row["expected"] or {}).items()))
        entries.append(
            (row["landed_at"], 1, "metadata", f"Its metadata came and counts {counts or 'no watched rows'}.")
        )
    for row in finished:
        what = row["cause"] if row["cause"] == COMPLETE else row["status"]
        by = f"by release {row['release']}"
        sentences = {
            RELEASED: f"{_many(row['rows'], 'row')} released into history {by}.",
            DEAD: f"Given up {by}: {row['cause']}.",
            COMPLETE: f"What was missing has come ({by}): it waits for a redrive.",
        }
        entries.append((row["finished_at"], 2, what, sentences[what]))
    for row in dismissed:
        opening = f"{_many(row['events'], 'dead letter')} dismissed by {row['person']}: {row['reason']}"
        entries.append((row["at"], 3, "dismissed", opening))
    if waits is not None:
        entries.append((waits["as_of"], 3, WAITS, f"Waits for its missing parts: {waits['cause'] or UNDECIDED}."))
    if cut is not None:
        entries.append((cut["published_at"], 4, "shown", f"Cut {cut['cut_id']} is the first that shows it."))
    ordered = sorted((each for each in entries if each[0] is not None), key=lambda each: each[:2])
    return [{"at": at, "what": what, "sentence": sentence} for at, _, what, sentence in ordered]


def _unshown(paths: TablePaths) -> Row:
    """Return the entry for a released transaction that is in no cut, with the lowest csn that still waits."""
    lowest = small_tables.query(paths.table(names.PENDING_TRANSACTIONS), "select min(csn) as csn from t")
    below = lowest[0]["csn"] if lowest else None
    why = "." if below is None else f"; the lowest that waits is csn {below}."
    return {"at": last_step(paths), "what": "not shown", "sentence": f"No cut shows it yet{why}"}


def _many(count: int | None, noun: str) -> str:
    return f"{count or 0} {noun}{'' if count == 1 else 's'}"
