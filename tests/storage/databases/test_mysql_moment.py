"""Which changes a snapshot of MySQL may lack: by GTIDs, or by their position."""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from txloom.storage.databases.mysql_moment import Moment
from txloom.storage.delta import arrow_tables

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
AT = datetime(2026, 11, 27)


Change = tuple[int, str | None]


def unseen(folder: Path, moment: Moment, *changes: Change) -> list[Change]:
    csns, xids = pa.array([csn for csn, _ in changes]), pa.array([xid for _, xid in changes], pa.string())
    write_deltalake(folder, pa.table({"_txloom_csn": csns, "_txloom_xid": xids}))
    rows = arrow_tables.select(str(folder), f"select * from t where {moment.unseen}").to_pylist()
    return [(row["_txloom_csn"], row["_txloom_xid"]) for row in rows]


def test_without_gtids_the_position_decides(tmp_path: Path) -> None:
    changes = [(99, "file=b.1,pos=99"), (100, "0-1-7"), (101, "0-1-8"), (102, None)]
    assert unseen(tmp_path, Moment(100, 100, AT), *changes) == [(101, "0-1-8"), (102, None)]


def test_a_gtid_decides_wherever_its_commit_lies(tmp_path: Path) -> None:
    moment = Moment(100, 200, AT, f"{A.upper()}:1-5:7-9,\n{B}:3,{B}:daily:1-2")
    seen = [
        (10, f"{A}:1"),
        (150, f"{A}:9"),
        (150, f"{A.upper()}:7"),
        (150, f"{B}:3"),
        (150, f"{B}:daily:2"),
        (99, "file"),
    ]
    late = [
        (99, f"{A}:6"),
        (150, f"{A}:10"),
        (150, f"{B}:2"),
        (150, f"{B}:daily:3"),
        (150, f"{B}:other:1"),
        (101, "file"),
    ]
    assert unseen(tmp_path, moment, *seen, (99, "file"), *late, (101, "file")) == [*late, (101, "file")]


def test_a_server_that_executed_nothing_has_nothing_surely(tmp_path: Path) -> None:
    assert unseen(tmp_path, Moment(100, 200, AT, ""), (5, f"{A}:1"), (5, "x")) == [(5, f"{A}:1")]


@pytest.mark.parametrize("executed", [None, f"{A}:1-3"])
def test_nothing_of_a_lake_without_transactions_is_unseen(tmp_path: Path, executed: str | None) -> None:
    assert unseen(tmp_path, Moment(100, 100, AT, executed), (7, None)) == []
