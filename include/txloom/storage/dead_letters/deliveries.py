"""What a redrive takes of transactions whose messages mean something only in their order: one delivery of each.

A stream that was read again after a crash holds a transaction several times, each time behind another BEGIN. Two
deliveries mixed are no transaction: their rows would be counted together.
"""

from collections.abc import Sequence

import pyarrow as pa

from txloom.storage.dead_letters.open_letters import MESSAGE
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import text_list
from txloom.storage.paths import TablePaths

_OF_TRANSACTIONS = """
select {message}, landing, "row", kind, pos, coalesce(transaction_id, concat(xid, ':', csn)) as tx from t
where kind in ('row', 'metadata', 'marker') and transaction_id in ({ids})
   or kind = 'poison' and xid is not null and concat(xid, ':', csn) in ({ids})
"""
_NUMBERED = """
select *, sum(case when kind = 'marker' then 1 else 0 end) over (partition by tx order by landing, "row") as delivery
from ({messages})
"""
_JUDGED = """
select *, max(case when kind = 'metadata' then 1 else 0 end) over (partition by tx, delivery) as is_whole,
    first_value(landing) over (partition by tx, delivery order by landing, "row") as first_landing,
    first_value("row") over (partition by tx, delivery order by landing, "row") as first_row,
    row_number() over (partition by tx, delivery, pos, case when pos is null then kind end
                       order by landing desc, "row" desc) as again
from ({numbered})
"""
_CHOSEN = """
select *, first_value(delivery) over (partition by tx order by is_whole desc, delivery desc) as best from ({judged})
"""


def of_transactions(paths: TablePaths, transactions: Sequence[str], message: str = MESSAGE) -> pa.Table:
    """Return the messages of one delivery of each transaction: the newest with a readable COMMIT, else the newest.

    A line that was cut off when it was first read is taken as it was last read. message: columns, as SQL.
    """
    if not transactions:
        return pa.table({})
    messages = _OF_TRANSACTIONS.format(message=message, ids=text_list(transactions))
    chosen = _CHOSEN.format(judged=_JUDGED.format(numbered=_NUMBERED.format(messages=messages)))
    there = "delivery = best and again = 1 and not (is_whole = 1 and kind = 'poison' and pos is null)"
    order = 'first_landing, first_row, landing, "row"'
    return arrow_tables.select(paths.change_events, f"select {message} from ({chosen}) where {there} order by {order}")
