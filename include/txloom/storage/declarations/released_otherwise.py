"""Find transactions that were released with another csn under an earlier declaration, so that none is released twice.

Where only rows tell a csn, a transaction has that of its last row of a watched table, and none (NOWHERE) without such a
row. A declaration that watches other tables gives it another csn when its messages come again: in a redrive, or because
the source sends them again.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.config.identity import GTID
from txloom.storage.dead_letters import open_letters
from txloom.storage.delta import arrow_tables, recent_files
from txloom.storage.delta.read_session import exists, opened
from txloom.storage.landing import landing_plan
from txloom.storage.paths import TablePaths
from txloom.transactions.events import NOWHERE
from txloom.transactions.hashes import hashed


def released_otherwise(paths: TablePaths, release: int, whole: pa.Table) -> "pa.Array[Any]":
    """Return the hashes of whole transactions that another release has, though with another csn.

    They are looked up by id: among those without a csn, and among ids that are never used again. Nothing is read for
    transactions that lie behind everything that earlier declarations decoded, unless they were redriven.

    Args:
        paths: where the tables are.
        release: the release of the whole transactions.
        whole: the transactions, in the schema RELEASED_ROWS of `txloom.storage.buffer.buffer_stream`.
    """
    parts = [pa.array([], pa.int64())]
    border, _ = landing_plan.decoded_since(paths)
    if not border or not exists(paths.table(names.TRANSACTIONS)):
        return parts[0]
    candidates = whole.column("tx").filter(_may_have_come_again(paths, border, whole)).combine_chunks()
    if len(candidates):
        is_meant = f"csn = {NOWHERE} or regexp_like(transaction_id, '^(?:{GTID.pattern})$')"
        sql = f"select transaction_id from t where status = 'released' and release <> {release} and ({is_meant})"
        for rows in arrow_tables.batches({"t": opened(paths.table(names.TRANSACTIONS))}, sql):
            tx = hashed(rows.column("transaction_id"))
            parts.append(tx.filter(pc.is_in(tx, value_set=candidates)))
    return pa.concat_arrays(parts)


def _may_have_come_again(paths: TablePaths, border: int, whole: pa.Table) -> Any:
    """Return which transactions may have messages that an earlier declaration decoded."""
    redriven = pc.is_in(whole.column("last_landing"), pa.array(open_letters.redrives(paths), pa.int64()))
    reached = recent_files.highest_before(opened(paths.change_events), "csn", border)
    if reached is None:
        return redriven
    csn = whole.column("csn")
    is_old = pc.and_(pc.less_equal(csn, pa.scalar(reached)), pc.not_equal(csn, pa.scalar(NOWHERE)))
    return pc.or_(redriven, is_old)
