"""Ordered topics: where the last landing left a transaction open, so that the next one goes on inside it."""

from typing import TYPE_CHECKING

from txloom.storage import books, local
from txloom.storage.place import Place

if TYPE_CHECKING:
    from txloom.events.wal2json import Open

PLACE = 'landing desc, "row" desc limit 1'


def open_transaction(place: Place, topic: str) -> "Open | None":
    """Return the transaction whose end an ordered topic has not shown yet; None where there is none.

    It is found in change_events: rows, and poison that may have been rows, know their place since the BEGIN that came
    last.
    """
    from txloom.events.wal2json import Open

    own = f"topic = {local.quoted(topic)}"
    landed = books.query(place.landed_files, f"select max(landing) as n from t where {own} and file is not null")
    if not landed or landed[0]["n"] is None:
        return None
    told = f"{own} and kind in ('marker', 'row', 'metadata', 'poison') and csn is not null"
    sql = f"select kind, xid, csn, pos from t where {told} and landing <= {landed[0]['n']} order by {PLACE}"
    last = next(iter(books.query(place.change_events, sql)), None)
    if last is None or (last["kind"] in ("metadata", "poison") and last["pos"] is None):
        return None
    inside = f"{own} and csn = {last['csn']} and xid = {local.quoted(last['xid'])}"
    begun = f"select landing, \"row\", committed_at from t where {inside} and kind = 'marker' order by {PLACE}"
    (begin,) = books.query(place.change_events, begun)
    since = f'(landing > {begin["landing"]} or landing = {begin["landing"]} and "row" > {begin["row"]})'
    counted = f'select "table", op, count(*) as n, max(pos) as pos from t where {inside} and {since} and pos > 0'
    rows = books.query(place.change_events, f'{counted} group by "table", op')
    counts: dict[str, int] = {}
    for row in rows:
        if row["table"] is not None:
            counts[row["table"]] = counts.get(row["table"], 0) + row["n"]
    unreadable = sum(row["n"] for row in rows if row["op"] is None)
    ordinal = max((row["pos"] for row in rows), default=0)
    return Open(last["xid"], last["csn"], begin["committed_at"], ordinal, counts, unreadable)
