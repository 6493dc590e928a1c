"""The example declarations of sources whose events stand alone, run on the seeds' own cases."""

import gzip
import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from called import step_of
from lake import STEPS, Lake
from txloom.config import load
from txloom.steps.snapshots.diff_snapshot import diff_snapshot

EXAMPLES = Path(__file__).resolve().parents[2] / "include" / "pipelines" / "examples"
SET = [("I", 1, 10), ("U", 1, 11), ("D", 1, None), ("I", 2, 19), ("U", 2, 20), ("I", 3, 1), ("D", 3, None)]
"""The Delta seed's table, with the inserts that it leaves out: only 2=20 remains."""


@pytest.fixture
def lake(request: pytest.FixtureRequest, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return an empty lake of an example."""
    (tmp_path / "inbox").mkdir()
    monkeypatch.setenv("TXLOOM_INBOX", str(tmp_path / "inbox"))
    return Lake(spark, tmp_path, load(EXAMPLES / f"{request.param}.yaml"))


def put(lake: Lake, file: str, content: bytes) -> None:
    path = lake.inbox / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def rows(changes: list[tuple[str, int, int | None]], at: str) -> list[dict[str, Any]]:
    return [{"FLAG": flag, "ID": key, "VALUE": value, "CDC_TIMESTAMP": at} for flag, key, value in changes]


def shown(lake: Lake, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in lake.rows(table))


@pytest.mark.stream
@pytest.mark.parametrize("lake", ["change_sets"], indirect=True)
@pytest.mark.parametrize("kind", ["csv.gz", "jsonl", "parquet"])
def test_a_change_set_leaves_what_its_last_rows_say(lake: Lake, kind: str) -> None:
    """Several changes of one key share a timestamp; a set that comes again changes nothing, a later one does."""
    first, second = rows(SET, "2026-01-01 00:00:00"), rows([("U", 2, 21), ("U", 2, 20), ("U", 2, 21)], "2026-01-02")
    for name, content in (("1", first), ("2", second), ("again", first)):
        if kind == "parquet":
            put(lake, f"readings/{name}.parquet", b"")
            pq.write_table(pa.Table.from_pylist(content), lake.inbox / f"readings/{name}.parquet")
        elif kind == "jsonl":
            put(lake, f"readings/{name}.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in content))
        else:
            lines = [
                ",".join(content[0]),
                *(",".join("" if v is None else str(v) for v in row.values()) for row in content),
            ]
            put(lake, f"readings/{name}.csv.gz", gzip.compress("".join(f"{line}\n" for line in lines).encode()))
        settle(lake, name)
        done = lake.run()
        assert shown(lake, "readings", "id", "value") == ([(2, 20)] if name == "1" else [(2, 21)])
    assert done["buffer_transactions"]["duplicates"] == len(SET)
    assert len(lake.rows("readings_changes")) == len(first) + len(second)
    assert lake.query("dead_letters", "select * from t") == []


def settle(lake: Lake, name: str) -> None:
    """Let files count as whole that do not end in a newline."""
    for file in lake.inbox.glob(f"*/{name}.*"):
        os.utime(file, (0, 0))


@pytest.mark.parametrize("lake", ["change_sets"], indirect=True)
def test_a_table_without_a_key_keeps_every_insert_and_refuses_the_rest(lake: Lake) -> None:
    sent = [{"FLAG": flag, "PLACE": "hall", "SECONDS": "5", "CDC_TIMESTAMP": "2026-01-01"} for flag in "IID"]
    put(lake, "visits/1.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in sent))
    lake.run()
    assert shown(lake, "visits", "place", "seconds") == [("hall", 5), ("hall", 5)]
    assert [row["cause"] for row in lake.query("dead_letters", "select cause from t")] == ["table without a key"]
    assert all(line["balanced"] for line in lake.query("ledger", "select balanced from t where step = 'balance'"))


def event(kind: str, at: int, after: dict[str, Any], old: dict[str, Any]) -> bytes:
    event_fields = {
        "changeType": kind,
        "timestamp": at,
        "columnNames": list(after),
        "columnValues": list(after.values()),
    }
    event_fields |= {"oldKeyNames": list(old), "oldKeyValues": list(old.values())}
    return json.dumps(event_fields).encode() + b"\n"


@pytest.mark.stream
@pytest.mark.parametrize("lake", ["change_events"], indirect=True)
def test_the_resolvers_example(lake: Lake) -> None:
    """The resolver seed: {id1 Alice, id2 Bob}; id1 becomes Angela, id2 goes and comes again as Carol."""
    start = [event("insert", 0, {"id": f"id{n}", "name": name}, {}) for n, name in ((1, "Alice"), (2, "Bob"))]
    later = [
        event("INSERT", 3, {"id": "id2", "name": "Carol"}, {}),
        event("Delete", 2, {}, {"id": "id2"}),
        event("update", 1, {"name": "Angela"}, {"id": "id1"}),
    ]
    put(lake, "people/1.jsonl", b"".join(start))
    lake.run()
    put(lake, "people/2.jsonl", b"".join(later))
    lake.run()
    assert shown(lake, "people", "id", "name") == [("id1", "Angela"), ("id2", "Carol")]
    chain = [event("update", at, {"id": new}, {"id": old}) for at, old, new in ((10, "id1", "b"), (11, "b", "c"))]
    put(lake, "people/3.jsonl", b"".join([*reversed(chain), chain[0]]))
    lake.run()
    assert shown(lake, "people", "id", "name") == [("c", "Angela"), ("id2", "Carol")]


@pytest.mark.stream
@pytest.mark.parametrize("lake", ["snapshots"], indirect=True)
def test_the_difference_of_two_extracts(lake: Lake) -> None:
    """The hash-diff seed in small: one player goes, one comes, one changes, one stays."""
    days = {
        date(2026, 11, 1): 'ID,NAME,CITY,VALUE\n1,Ann,Oaxaca,1.5\n2,Bo,,2\n3,Cy,"",3\n',
        date(2026, 11, 2): "ID,NAME,CITY,VALUE\n4,Di,Carmel,4\n3,Cy,,3\n1,Ann,Oaxaca,1.50\n",
    }
    states = []
    for day, text in days.items():
        for name, content in (("players/1.csv", text), ("_SUCCESS", "")):
            path = lake.inbox / day.isoformat() / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        counts = diff_snapshot(step_of(lake.pipeline, lake.warehouse, day.isoformat(), lambda: lake.spark), day)
        states.append({name: counts[name] for name in ("inserts", "updates", "deletes", "unchanged")})
        lake.run(STEPS[1:])
    assert states == [
        {"inserts": 3, "updates": 0, "deletes": 0, "unchanged": 0},
        {"inserts": 1, "updates": 1, "deletes": 1, "unchanged": 1},
    ]
    assert shown(lake, "players", "id", "name", "city", "_txloom_csn") == [
        (1, "Ann", "Oaxaca", 20261101), (3, "Cy", None, 20261102), (4, "Di", "Carmel", 20261102)
    ]  # fmt: skip
