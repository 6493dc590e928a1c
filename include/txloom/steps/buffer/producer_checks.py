"""The producer's doctor, after a batch: what transactions that were given up show of how the source is captured.

Those that still wait show nothing: their metadata, or their rows, may be on the way.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Row

from txloom.quality.producer_diagnostics import TransactionSeen, diagnose
from txloom.steps.buffer.give_up import counts_by_table
from txloom.steps.buffer.micro_batch import Batch
from txloom.storage.checks import findings
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.sql import int_list
from txloom.transactions.completeness import EXCESS, NO_METADATA

MOST = 500
"""Dead transactions of a batch that are looked at: a producer's setting shows in the first ones."""
Operations = dict[int, dict[str, dict[str, int]]]


def operations_of(batch: Batch, standings: Sequence[Row]) -> Operations:
    """Return, by transaction and operation, how many different rows were landed for each table; of GoldenGate's.

    Other producers have no setting by which one of them leaves an operation out that the other one sends.
    """
    if batch.pipeline.source.format != "goldengate":
        return {}
    odd = [row for row in standings if row["cause"] in (EXCESS, NO_METADATA)][:MOST]
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


def after_batch(batch: Batch, standings: Sequence[Row], operations: Operations, named: Mapping[int, Any]) -> None:
    """Write down what dead transactions show; named: xid and csn by hash. Debezium has none of these settings."""
    if batch.pipeline.source.format != "goldengate":
        return
    watched = batch.table_names()
    seen = [
        TransactionSeen(
            named[row["tx"]]["xid"],
            named[row["tx"]]["csn"],
            None if row["expected"] is None else counts_by_table(row["expected"], watched),
            counts_by_table(row["received"], watched),
            operations.get(row["tx"], {}),
        )
        for row in standings
        if row["tx"] in named
    ]
    findings.record(batch.paths, diagnose(seen), batch.run_id, batch.pipeline.source.format)
