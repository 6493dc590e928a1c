"""A log is shortened to what someone may read: delta-rs removes old entries, and versions that cuts name stay."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from txloom.storage.delta.table_metadata import identity
from txloom.storage.maintenance.log_retention import MARGIN, keep_log, properties_of

APART, RETAIN = timedelta(hours=6), timedelta(days=7)
OLD, NEW = 230, 75
"""Commits of the past, a quarter of a day apart, and of today: delta-rs writes a checkpoint every hundred."""


def commit(path: str, number: int) -> None:
    properties = CommitProperties(custom_metadata={"userMetadata": f'{{"n": {number}}}'})
    write_deltalake(path, pa.table({"n": [number]}), mode="append", commit_properties=properties)


@pytest.mark.long
def test_versions_that_were_replaced_within_the_retention_stay_readable(tmp_path: Path) -> None:
    path, log = str(tmp_path / "orders"), tmp_path / "orders" / "_delta_log"
    for number in range(OLD):
        commit(path, number)
    now = datetime.now(UTC)
    for entry in log.iterdir():
        if (version := entry.name.split(".")[0]).isdigit():
            at = (now - APART * (OLD - int(version))).timestamp()
            os.utime(entry, (at, at))
    keep_log(path, properties_of("orders", RETAIN))
    for number in range(OLD, OLD + NEW):
        commit(path, number)
    left = {int(entry.name.split(".")[0]) for entry in log.glob("*.json") if entry.name[0] != "_"}
    assert min(left) == 99, "old entries are removed"
    readable = OLD - (RETAIN + MARGIN) // APART
    for version in range(readable - 1, OLD):
        assert DeltaTable(path, version=version).to_pyarrow_table().num_rows == version + 1
        assert identity(path, version)[1] == f'{{"n": {version}}}'


def test_a_day_is_kept_of_what_nobody_reads_at_an_older_version() -> None:
    days = {
        name: int(next(iter(properties_of(name, RETAIN, timedelta(days=40)).values())).split()[1]) // 24
        for name in ("ledger", "change_events", "transactions", "dismissals", "dead_letters", "orders")
    }
    expected = {"ledger": 1, "change_events": 1, "transactions": 3, "dismissals": 3, "dead_letters": 7, "orders": 42}
    assert days == expected
