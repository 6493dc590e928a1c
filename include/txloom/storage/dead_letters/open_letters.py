"""Open dead letters: not released since, nor decided again by a redrive, nor dismissed.

A row that came after its transaction was released is open until it is dismissed: no table has it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from txloom.arrow_types import AnyArray
from txloom.config import names
from txloom.config.identity import GTID
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.dead_letters.known_open import KnownOpen, known_open, was_restored, write
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.delta.read_session import exists, opened, reading
from txloom.storage.delta.sql import int_list, near, text_list
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.cuts import newest_cut
from txloom.storage.sources import file_positions
from txloom.transactions import metadata, reused_ids
from txloom.transactions.causes import COMPLETE
from txloom.transactions.events import NOWHERE
from txloom.transactions.hashes import hash64

POSITION = 'topic, partition, "offset", file, line'
MESSAGE = f"{POSITION}, value, headers"
"""The columns that are kept of a message: its position, and the message as it came."""
REDRIVE = f"{names.SYSTEM_PREFIX}redrive"
"""The topic under which the landings of redrives are planned."""
SAME = "t.transaction_id = d.transaction_id and t.csn = d.csn"
RELEASED = f"not exists (select 1 from {{}} where t.status = 'released' and {SAME} and {{}})"
SINCE = "coalesce(d.landing <= {}, d.release <= t.release, true)"
"""The condition on a release that came after a dead letter. Its landing is not known if an earlier version wrote it."""
SAME_MESSAGE = (
    "c.topic = d.topic and (c.file is not distinct from d.file) and (c.line is not distinct from d.line)"
    ' and (c.partition is not distinct from d.partition) and (c."offset" is not distinct from d."offset")'
)
SUPERSEDED = f"not exists (select 1 from c where c.landing in ({{}}) and c.landing > d.landing and {SAME_MESSAGE})"
REPLACED = (
    "not exists (select 1 from c where c.landing in ({}) and c.kind = 'metadata' and d.kind = 'metadata'"
    " and c.landing > d.landing and c.transaction_id = d.transaction_id and c.csn is not distinct from d.csn)"
)
"""A redrive lands only the newest of a transaction's metadata."""
READ_AGAIN = SUPERSEDED.replace(" and c.landing > d.landing", " and d.kind = 'poison' and c.landing > d.landing")
"""A message that could not be read, and was read again since: a line of a file that was incomplete, or metadata whose
topic the declaration did not name."""
REDECODED = f"{names.SYSTEM_PREFIX}redecoded"
"""The topic of landings that decode messages again (`landing_plan.REDECODED`)."""
DISMISSED = 'select 1 from x where x.landing = d.landing and x."row" = d."row"'

FEW = 1_000
"""Transactions that a query names, so that it reads no other columns of the other rows."""
DEAD = "status <> 'released'"
LAST = f"case when cause = '{COMPLETE}' then 0 else 1 end"
"""Orders rows of one release: where a transaction was given up and became complete in one batch, it is complete."""


def released(paths: TablePaths, transactions: Sequence[str]) -> set[tuple[str, int]]:
    """Return which of some transactions were released: id and csn."""
    ids = text_list(transactions)
    sql = f"select transaction_id, csn from t where status = 'released' and transaction_id in ({ids})"
    rows = small_tables.query(paths.table(names.TRANSACTIONS), sql) if ids else []
    return {(row["transaction_id"], row["csn"]) for row in rows}


def given_up(
    paths: TablePaths, where: str = "true", dead: str = DEAD, release: int | None = None
) -> list[dict[str, Any]]:
    """Return the transactions that were given up and not released since: id, xid, csn, newest cause; in commit order.

    Of all transactions only those are held in memory that were given up and do not plainly show a release since, and
    only files are read that can hold one of them.

    Args:
        paths: where the tables are.
        where: a condition on the rows of `transactions`.
        dead: a condition that some of these rows of each transaction has.
        release: only rows up to this release of the buffer; None: all.
    """
    until = where if release is None else f"({where}) and release <= {release}"
    known = known_open(paths)
    if known is not None and release is not None and release < known.release:
        known = None
    by_transaction: dict[tuple[str, str, int | None], list[dict[str, Any]]] = {}
    for row in _with_known_csn(_rows_of_dead(paths, until, dead, known)):
        by_transaction.setdefault((row["transaction_id"], row["xid"], row["csn"]), []).append(row)
    given = [
        rows_of[0]
        for rows_of in by_transaction.values()
        if all(row["status"] != "released" for row in rows_of) and any(row["dead"] for row in rows_of)
    ]
    sorted_rows = [{name: row[name] for name in ("transaction_id", "xid", "csn", "cause")} for row in given]
    return sorted(sorted_rows, key=lambda row: (row["csn"] is None, row["csn"], row["xid"]))


def _rows_of_dead(paths: TablePaths, where: str, dead: str, known: KnownOpen | None) -> list[dict[str, Any]]:
    """Return the rows of transactions of which one row fulfils a condition, the newest first; known: what was open."""
    path = paths.table(names.TRANSACTIONS)
    chosen = _candidates_since(path, where, dead, known) if known is not None else None
    candidates = chosen if chosen is not None else _candidates(path, where, dead)
    if not candidates.num_rows:
        return []
    columns = f"transaction_id, xid, csn, status, cause, release, {LAST} as last, {dead} as dead"
    ids = cast("AnyArray", candidates.column("transaction_id").unique())
    named = f" and transaction_id in ({text_list(cast('list[str]', ids.to_pylist()))})" if len(ids) <= FEW else ""
    sql = f"select {columns} from t where ({where}) and {_near(candidates)}{named}"
    read = arrow_tables.matching(path, sql, "transaction_id", ids)
    if not read.num_rows:
        return []
    newest_first = read.sort_by([("release", "descending"), ("last", "ascending")])
    rows: list[dict[str, Any]] = newest_first.drop_columns(["last"]).to_pylist()
    return rows


def _candidates_since(path: str, where: str, dead: str, known: KnownOpen) -> pa.Table | None:
    """Return id and csn of transactions that may be dead: those that may have been, and those given up since.

    None where those that may have been are too many to be known.
    """
    if known.given_up is None or not exists(path):
        return None
    since = f"select distinct transaction_id, csn from t where ({where}) and ({dead}) and release > {known.release}"
    new = arrow_tables.select(path, since)
    return pa.concat_tables([new, pa.Table.from_pylist(list(known.given_up), new.schema)])


def _candidates(path: str, where: str, dead: str) -> pa.Table:
    """Return id and csn of transactions that may be dead: without those whose release names the same id, xid and csn.

    A csn that is unknown, or that of a part of a transaction with a GTID, can be that of a release with another one.
    """
    inside = f"(select * from t where ({where})"
    is_unsure = f"csn is null or regexp_like(transaction_id, '^(?:{GTID.pattern})')"
    is_released = f"select 1 from {inside} and status = 'released') r where"
    is_released += " r.transaction_id = d.transaction_id and r.xid = d.xid and r.csn = d.csn"
    sql = f"select transaction_id, csn from {inside} and ({dead})) d where"
    return arrow_tables.select(
        path, f"select distinct * from ({sql} {is_unsure} union all {sql} not exists ({is_released})) as both"
    )


def _near(dead: pa.Table) -> str:
    """Return a condition on the csn that every row of some dead transactions fulfils; "true" where nothing is known.

    A part of a transaction with a GTID may have any csn that is too low, that of others is the transaction's.
    """
    csn, ids = dead.column("csn"), cast("list[str]", dead.column("transaction_id").to_pylist())
    if csn.null_count or any(GTID.match(each) for each in ids):
        return "true"
    return f"(csn is null or csn = {NOWHERE} or {near('csn', cast('list[int]', csn.to_pylist()))})"


def _with_known_csn(newest_first: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of `transactions` with the csn that later rows of the same transaction have.

    A transaction that was given up without all of its events may lack its csn: an END of Oracle carries none, and a
    part of the rows of a transaction with a GTID carries one that is too low. A transaction that was released while no
    row of it was watched has none (NOWHERE); it may also get the csn of an earlier row. An id that is used again has
    another csn, which stays.
    """
    known: dict[str, int] = {}
    unknown: dict[str, list[dict[str, Any]]] = {}
    with_csn: list[dict[str, Any]] = []
    for row in newest_first:
        identity, csn = row["transaction_id"], row["csn"]
        if csn in (None, NOWHERE) or GTID.fullmatch(identity):
            csn = known.get(identity, csn)
        with_csn.append({**row, "csn": None if csn == NOWHERE else csn})
        if csn not in (None, NOWHERE):
            known[identity] = csn
            for later in unknown.pop(identity, ()):
                later["csn"] = csn
        elif csn == NOWHERE or identity in unknown:
            unknown.setdefault(identity, []).append(with_csn[-1])
    return with_csn


def dead_by_hash(paths: TablePaths) -> dict[int, tuple[str, str]]:
    """Return id and cause of the dead transactions, by the buffer's hash of their id."""
    return {hash64(row["transaction_id"]): (row["transaction_id"], row["cause"]) for row in given_up(paths)}


def complete_now(paths: TablePaths) -> list[str]:
    """Return the ids of dead transactions that need nothing but a redrive."""
    completed = given_up(paths, dead=f"cause = '{COMPLETE}'")
    return sorted(row["transaction_id"] for row in completed if row["cause"] == COMPLETE)


def redrives(paths: TablePaths) -> list[int]:
    """Return the landings that landed dead letters once more."""
    return _landed_again(paths)[0]


def _landed_again(paths: TablePaths) -> tuple[list[int], list[int]]:
    """Return the landings of redrives, and those that decoded messages again after an edit of the declaration."""
    # The plan of the first landing has a row with the topic REDECODED too.
    where = f"topic = '{REDRIVE}' or (topic = '{REDECODED}' and landing > 1)"
    rows = small_tables.query(paths.landed_files, f"select landing, topic from t where {where}")
    of_topic: dict[str, list[int]] = {REDRIVE: [], REDECODED: []}
    for row in rows:
        of_topic[row["topic"]].append(row["landing"])
    return of_topic[REDRIVE], of_topic[REDECODED]


def open_dead_letters(paths: TablePaths, columns: str, more: str = "", version: int | None = None) -> pa.Table:
    """Query the open dead letters; more: what follows the table in the SQL. A redrive's copies keep their coordinates.

    version: only dead letters that this version of their table has; None: the newest.
    """
    known = known_open(paths)
    return _open(paths, columns, more, version, None if known is None or known.letters is None else known)


def unread_dead_letters(paths: TablePaths, columns: str, more: str) -> pa.Table:
    """Query the dead letters that are open or dismissed; more: what follows the table in the SQL."""
    return _open(paths, columns, more, None, None, with_dismissed=True)


def _open(
    paths: TablePaths,
    columns: str,
    more: str,
    version: int | None,
    known: KnownOpen | None,
    *,
    with_dismissed: bool = False,
) -> pa.Table:
    """Query the open dead letters; known: which were open at a time; None: all are compared with all that closes any.

    Of those that were open, only what came since is compared, and of those that came since only what can close them.
    """
    if not exists(paths.dead_letters):
        return pa.table({})
    tables, conditions = {"d": opened(paths.dead_letters, version)}, ["true"]
    dead, released, after = "d", "t", 0
    if known is not None:
        new = arrow_tables.ask(tables, f"select landing, csn from d where {known.later}")
        csns = cast("list[int]", new.column("csn").drop_null().to_pylist())
        after = min([known.landing, *cast("list[int]", new.column("landing").to_pylist())])
        dead = f"(select * from d where {known.later} or {known.earlier}) as d"
        released = f"(select * from t where release > {known.release} or {near('csn', csns)}) as t"
    if exists(paths.table(names.DISMISSALS)) and not with_dismissed:
        tables["x"] = opened(paths.table(names.DISMISSALS))
        conditions.append(f"not exists ({DISMISSED})")
    if exists(transactions := paths.table(names.TRANSACTIONS)):
        tables["t"] = opened(transactions)
        landing = "t.landing" if "landing" in small_tables.schema_of(transactions).names else "null"
        conditions.append(RELEASED.format(released, SINCE.format(landing)))
    redriven, redecoded = _landed_again(paths)
    if again := [landing for landing in redriven if landing > after]:
        tables["c"] = opened(paths.change_events)
        conditions += [SUPERSEDED.format(int_list(again)), REPLACED.format(int_list(again))]
    if again := [landing for landing in (*file_positions.read_again(paths), *redecoded) if landing > after]:
        tables["c"] = opened(paths.change_events)
        conditions.append(READ_AGAIN.format(int_list(again)))
    dead_letters = f"(select * from {dead} where {' and '.join(conditions)}) as l"
    return arrow_tables.ask(tables, f"select {columns} from {dead_letters} {more}")


def remember(paths: TablePaths) -> None:
    """Write down which dead letters and which given-up transactions are open, so that queries begin from there.

    It begins itself from what was written down before, unless a table was restored since.
    """
    with reading():
        seen = buffer_state(paths)
        if seen is None or not exists(paths.dead_letters) or not exists(paths.table(names.TRANSACTIONS)):
            return
        known = None if was_restored(paths) else known_open(paths)
        upto = f"release <= {seen.release} or (release is null and landing <= {seen.landing})"
        of_letters = None if known is None or known.letters is None else known
        letters = _open(paths, 'distinct landing, "row"', f"where {upto}", None, of_letters).to_pylist()
        write(paths, (seen.release, seen.landing), letters, _may_be_dead(paths, seen.release, known))


def _may_be_dead(paths: TablePaths, release: int, known: KnownOpen | None) -> list[dict[str, Any]]:
    """Return id and csn of the transactions that may be dead at a release, as `_candidates` does, or fewer.

    What is only known to be released by another csn than the dead row has stays until a cut shows that release: up to
    then a query for the cut does not see it.
    """
    where = f"release <= {release}"
    if known is None or known.given_up is None:
        return _candidates(paths.table(names.TRANSACTIONS), where, DEAD).to_pylist()
    rows = _rows_of_dead(paths, where, DEAD, known)
    shown = newest_cut(paths, "valid_through, release") or {"valid_through": -1, "release": -1}
    released, is_shown = set[_Key](), set[_Key]()
    resolved = _with_known_csn(rows)
    for row in resolved:
        if row["status"] == "released":
            released.add(_key(row))
            csn = NOWHERE if row["csn"] is None else row["csn"]
            if csn <= shown["valid_through"] and row["release"] <= shown["release"]:
                is_shown.add(_key(row))
    dead = {
        (row["transaction_id"], row["csn"])
        for row, as_known in zip(rows, resolved, strict=True)
        if row["dead"] and _key(as_known) not in (is_shown if _is_unsure(row) else released)
    }
    return [{"transaction_id": name, "csn": csn} for name, csn in sorted(dead, key=str)]


_Key = tuple[str, str, int | None]


def _key(row: Mapping[str, Any]) -> _Key:
    return row["transaction_id"], row["xid"], row["csn"]


def _is_unsure(row: Mapping[str, Any]) -> bool:
    """Say whether a dead transaction may have been released with another csn than its row has."""
    return row["csn"] is None or GTID.match(row["transaction_id"]) is not None


def events_of(
    paths: TablePaths, transactions: Sequence[str], poison: pa.Table, dead_letters: pa.Table, message: str = MESSAGE
) -> pa.Table:
    """Return all events that were ever landed of some transactions, and some poison; message: columns, as SQL.

    Each distinct event comes once, and of a transaction's metadata only the message that counts. dead_letters: open
    dead letters (landing and row), which separate the requested transactions from others that had the same ids.
    """
    columns = f'{message}, landing, "row", {", ".join(reused_ids.COLUMNS)}, "table", payload, digest'
    ids = text_list(transactions)
    ranked = (
        "row_number() over (partition by transaction_id, kind, case when kind = 'row' then source_table end, identity,"
        " case when kind = 'row' then payload when kind = 'poison' then pos end,"
        " case when kind = 'row' then digest end order by"
        " case when kind = 'metadata' then -landing else landing end,"
        ' case when kind = \'metadata\' then -"row" else "row" end) as n'
    )
    chosen = f"kind in ('row', 'metadata', 'marker') and transaction_id in ({ids})"
    chosen = f"({chosen}) or (kind = 'poison' and xid is not null and concat(xid, ':', csn) in ({ids}))"
    sql = f"select * from (select {columns}, {ranked} from t where {chosen}) where n = 1 or kind = 'metadata'"
    events = pa.table({})
    if transactions:
        events = arrow_tables.select(paths.change_events, f'{sql} order by landing, "row"')
        events = _with_counting_metadata(paths, _that_are_meant(paths, events, ids, dead_letters), ids)
    message_columns = [name.strip('" ') for name in message.split(",")]
    parts = [part.select(message_columns) for part in (events, poison) if part.num_rows]
    return pa.concat_tables(parts) if parts else pa.table({})


def _that_are_meant(paths: TablePaths, events: pa.Table, ids: str, dead_letters: pa.Table) -> pa.Table:
    """Return the events without those of other transactions that had the same ids; ids: as a list in SQL."""
    sql = f'select {", ".join(reused_ids.COLUMNS)}, landing, "row" from t'
    rows = small_tables.query(
        paths.change_events, f"{sql} where kind in ('row', 'metadata') and transaction_id in ({ids})"
    )
    ends = reused_ids.ends(rows)
    dead = set(zip(dead_letters.column("landing").to_pylist(), dead_letters.column("row").to_pylist(), strict=True))
    meant = {reused_ids.named(row, ends) for row in rows if (row["landing"], row["row"]) in dead}
    others = {reused_ids.named(row, ends) for row in rows} - meant
    others = {name for name in others if name[0] in {each for each, _ in meant}}
    if not others:
        return events
    named = events.select(reused_ids.COLUMNS).to_pylist()
    kept = [row["kind"] not in ("row", "metadata") or reused_ids.named(row, ends) not in others for row in named]
    return events.filter(pa.array(kept, pa.bool_()))


def _with_counting_metadata(paths: TablePaths, events: pa.Table, ids: str) -> pa.Table:
    """Return the events without metadata that was corrected or repeated; ids: of the transactions, as a list in SQL."""
    sql = 'select transaction_id, csn, landing, "row", expected from t'
    by_transaction: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
    for row in small_tables.query(paths.change_events, f"{sql} where kind = 'metadata' and transaction_id in ({ids})"):
        by_transaction.setdefault((row["transaction_id"], row["csn"]), []).append(row)
    counting = [newest for rows_of in by_transaction.values() if (newest := metadata.newest(rows_of)) is not None]
    counting_rows = {(row["landing"], row["row"]) for row in counting}
    coordinates = zip(*(events.column(name).to_pylist() for name in ("kind", "landing", "row")), strict=True)
    kept = [kind != "metadata" or (landing, row) in counting_rows for kind, landing, row in coordinates]
    return events.filter(pa.array(kept, pa.bool_()))
