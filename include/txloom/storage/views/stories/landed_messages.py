"""What was landed of a transaction: every message, its position, and whether it is a redelivery."""

from dataclasses import dataclass

from deltalake.exceptions import TableNotFoundError

from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import opened
from txloom.storage.delta.sql import int_list, text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.views.paging import Page, Row, limits
from txloom.transactions.hashes import hash64

COORDINATES = (
    'landing, "row", kind, topic, partition, "offset", file, line, landed_at, "table", source_table, op, pos, identity,'
    " cause, detail"
)
MORE = {"producer_run": "Utf8", "digest": "Binary"}
"""Columns that an older table may lack, and their types."""
LONGEST = 10_000
"""Characters of a message that are shown."""
METADATA = 20
"""Metadata messages that are shown of one transaction."""


@dataclass(frozen=True)
class Landed:
    """What was landed of a transaction.

    page: its messages in the order in which they came: COORDINATES, producer_run, value (None: forgotten, see
    maintenance.change_events.keep), came (`first`, `again`: the same event as one before, `conflicting`: another
    payload under the same identity), redriven (landed again by a redrive). landings: landing, landed_at, events,
    redriven. received: distinct events by watched table. duplicates: redeliveries from the source. unwatched: events of
    tables that are not watched. metadata: landing, landed_at, topic, partition, offset, file, line, expected,
    event_count.
    """

    page: Page
    landings: list[Row]
    received: dict[str, int]
    duplicates: int
    unwatched: int
    metadata: list[Row]


def landed(paths: TablePaths, identity: str, xid: str | None, csn: int | None, *, number: int, size: int) -> Landed:
    """Return what was landed of a transaction; identity: its id; number, size: the page of its messages."""
    chosen = _chosen(identity, xid, csn)
    sql = f"select landing from t where topic = '{open_letters.REDRIVE}'"
    redrives = {row["landing"] for row in small_tables.query(paths.landed_files, sql)}
    again = int_list(sorted(redrives)) or "-1"
    columns = f"{COORDINATES}, producer_run, payload, digest, landing in ({again}) as redriven"
    event = "kind, source_table, identity"
    order = 'order by landing, "row"'
    ranked = (
        f"select {columns}, substr(value, 1, {LONGEST}) as value,"
        f" row_number() over (partition by {event}, landing in ({again}) {order}) as nth,"
        f" first_value(payload) over (partition by {event} {order}) as first_payload,"
        f" first_value(digest) over (partition by {event} {order}) as first_digest from {_source(paths)} where {chosen}"
    )
    known = "digest is null or first_digest is null"
    same = f"case when {known} then payload = first_payload else digest = first_digest end"
    came = (
        f"case when kind <> 'row' or identity is null then 'first' when not ({same}) then 'conflicting'"
        " when nth > 1 then 'again' else 'first' end as came"
    )
    groups = small_tables.query(paths.change_events, _sums(chosen))
    rows = small_tables.query(paths.change_events, f"select *, {came} from ({ranked}) {order} {limits(number, size)}")
    for row in rows:
        for name in ("payload", "first_payload", "digest", "first_digest", "nth"):
            row.pop(name)
    total = sum(group["events"] for group in groups)
    return Landed(
        Page(rows, total, number, size, max((group["landed_at"] for group in groups), default=None)),
        _landings(groups, redrives),
        *_counts(paths, chosen, again),
        _metadata(paths, chosen),
    )


def _chosen(identity: str, xid: str | None, csn: int | None) -> str:
    """Return the SQL condition for a transaction's messages: an unreadable one may still carry xid and csn."""
    where = f"(tx = {hash64(identity)} and transaction_id = {text_literal(identity)})"
    if xid is not None and csn is not None:
        where += f" or (kind = 'poison' and csn = {csn} and transaction_id is null and xid = {text_literal(xid)})"
    return f"({where})"


def _sums(chosen: str) -> str:
    return (
        "select landing, min(landed_at) as landed_at, count(*) as events from t"
        f" where {chosen} group by landing order by landing"
    )


def _landings(groups: list[Row], redrives: set[int]) -> list[Row]:
    return [{**group, "redriven": group["landing"] in redrives} for group in groups]


def _counts(paths: TablePaths, chosen: str, again: str) -> tuple[dict[str, int], int, int]:
    """Return distinct events by watched table, redeliveries from the source, and events of unwatched tables."""
    distinct = "count(distinct concat(identity, ' ', payload, ' ', coalesce(encode(digest, 'hex'), '')))"
    sums = f'"table", count(*) filter (where landing not in ({again})) as events, {distinct} as different'
    firsts = f"{distinct} filter (where landing not in ({again})) as firsts, count(distinct identity) as identities"
    sql = f"select {sums}, {firsts} from {_source(paths)} where {chosen} and kind = 'row' group by \"table\""
    rows = small_tables.query(paths.change_events, sql)
    received = {row["table"]: row["identities"] for row in rows if row["table"] is not None}
    duplicates = sum(row["events"] - row["firsts"] for row in rows if row["table"] is not None)
    return received, duplicates, sum(row["different"] for row in rows if row["table"] is None)


def _metadata(paths: TablePaths, chosen: str) -> list[Row]:
    columns = 'landing, landed_at, topic, partition, "offset", file, line, expected, event_count'
    newest = f'order by landing desc, "row" desc limit {METADATA}'
    sql = f"select {columns} from t where {chosen} and kind = 'metadata' {newest}"
    return small_tables.query(paths.change_events, sql)[::-1]


def _source(paths: TablePaths) -> str:
    """Return change_events as a table expression, with null for columns that an older table lacks."""
    try:
        present = {each.name for each in opened(paths.change_events).schema().fields}
    except TableNotFoundError:
        return "t"
    lacking = [f"arrow_cast(null, '{kind}') as {name}" for name, kind in MORE.items() if name not in present]
    return f"(select *, {', '.join(lacking)} from t)" if lacking else "t"
