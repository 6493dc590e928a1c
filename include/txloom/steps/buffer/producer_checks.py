"""Producer diagnostics after a batch: what given-up transactions show of how the source is captured.

Transactions that still wait are left out: their metadata, or their rows, may be on the way.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from txloom.quality.producer_diagnostics import TransactionSeen, diagnose
from txloom.steps.buffer.give_up import Unfinished, counts_by_table
from txloom.steps.buffer.micro_batch import Batch
from txloom.storage.checks import findings
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import int_list
from txloom.transactions.completeness import EXCESS, NO_METADATA

MOST = 500
"""Given-up transactions of a batch that are examined: a producer's setting shows in the first ones."""
Operations = dict[int, dict[str, dict[str, int]]]


def operations_of(batch: Batch, dead: Sequence[Unfinished]) -> Operations:
    """Return, by hash of the transaction and by operation, how many distinct rows were landed for each table.

    Of GoldenGate's transactions with an excess or without metadata, the first MOST; {} for other producers, which have
    no setting that leaves an operation out of the counts.

    Args:
        batch: the batch.
        dead: the transactions that were given up.
    """
    if batch.pipeline.source.format != "goldengate":
        return {}
    odd = [row for row in dead if row["cause"] in (EXCESS, NO_METADATA)][:MOST]
    if not odd:
        return {}
    landings = int_list([landing for row in odd for landing in row["landings"]])
    where = f"landing in ({landings}) and kind = 'row' and \"table\" is not null"
    sql = f'select tx, "table", op, identity from t where {where}'
    rows = arrow_tables.matching(batch.paths.change_events, sql, "tx", [row["tx"] for row in odd])
    operations: Operations = {}
    grouped = rows.group_by(["tx", "op", "table"]).aggregate([("identity", "count_distinct")])
    for row in grouped.to_pylist():
        operations.setdefault(row["tx"], {}).setdefault(row["op"], {})[row["table"]] = row["identity_count_distinct"]
    return operations


def after_batch(batch: Batch, dead: Sequence[Unfinished], operations: Operations, named: pa.Table) -> None:
    """Record what given-up transactions show of a GoldenGate producer; of other producers nothing.

    Args:
        batch: the batch.
        dead: the transactions that were given up.
        operations: as `operations_of` returns them.
        named: xid and csn, with the hash as tx; a transaction that is not among them is left out.
    """
    if batch.pipeline.source.format != "goldengate":
        return
    if not dead:
        return
    watched = batch.table_names()
    chosen = named.filter(pc.is_in(named.column("tx"), pa.array([row["tx"] for row in dead], pa.int64())))
    known = {row["tx"]: row for row in chosen.to_pylist()}
    seen = [
        TransactionSeen(
            known[row["tx"]]["xid"],
            known[row["tx"]]["csn"],
            None if row["expected"] is None else counts_by_table(row["expected"], watched),
            counts_by_table(row["received"], watched),
            operations.get(row["tx"], {}),
        )
        for row in dead
        if row["tx"] in known
    ]
    findings.record(batch.paths, diagnose(seen), batch.run_id, batch.pipeline.source.format)
