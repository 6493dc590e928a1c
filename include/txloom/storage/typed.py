"""Payloads of released transactions, read from change_events and given their declared types."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txloom.config.models import Table
from txloom.events.images import ImageReader
from txloom.storage import schemas
from txloom.storage.buffering import transaction_hash

CARRIED = ("tx", "xid", "csn", "pos", "op", "committed_at", "landing", "row")


def payloads(
    change_events: DataFrame, table: str, landings: Iterable[int], chosen: DataFrame, repeated: DataFrame | None
) -> DataFrame:
    """Return one table's row events of chosen transactions, without their duplicates.

    chosen: a column `tx`, small enough for every executor. repeated: (landing, row) of duplicates, or None.
    """
    rows = change_events.where(
        F.col("landing").isin(sorted(landings)) & (F.col("kind") == "row") & (F.col("table") == table)
    ).select(transaction_hash().alias("tx"), *[name for name in CARRIED if name != "tx"], "value")
    rows = rows.join(F.broadcast(chosen), "tx", "left_semi")
    return rows if repeated is None else rows.join(F.broadcast(repeated), ["landing", "row"], "left_anti")


def typed(rows: DataFrame, table: Table) -> DataFrame:
    """Read the images of one table's row events; an event whose value cannot be read says so in `problem`."""
    carried = (
        "tx bigint, xid string, csn bigint, pos bigint, op string, committed_at timestamp, landing bigint, row bigint"
    )
    struct = schemas.struct_ddl(table)
    images = f"after {struct}, unchanged array<string>, before {struct}, before_known array<string>, problem string"
    return rows.select(*CARRIED, "value").mapInArrow(_reader(table), f"{carried}, {images}")


def _reader(table: Table) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = ImageReader(table)
        for batch in batches:
            images = reader.read(batch.column("value").to_pylist())
            columns = {name: batch.column(name) for name in CARRIED}
            columns |= {
                name: images.column(name) for name in ("after", "unchanged", "before", "before_known", "problem")
            }
            yield from pa.table(columns).to_batches()

    return read
