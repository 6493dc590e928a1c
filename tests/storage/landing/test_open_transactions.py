"""Topics whose order matters: a landing goes on inside the transaction that the last one left open."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from services.broker import Broker
from txloom.config import load
from txloom.quality.dead_letters import Selection
from txloom.steps.dead_letters.redrive import redrive
from txloom.steps.landing.accept_loss import accept_loss
from txloom.steps.landing.land_events import land_events
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths

DECLARED = """
name: slot
source: {{format: wal2json, {source}}}
completeness: {{rule: markers, patience: 30m}}
tables:
  - {{name: orders, source: public.orders, key: [id], columns: {{id: long}}}}
targets: {{mirrors: [orders]}}
"""


def marker(action: str, xid: int) -> str:
    return json.dumps({"action": action, "xid": xid, "timestamp": "2026-01-01 00:00:00+00", "lsn": f"0/{xid:X}"})


def row(xid: int, key: int) -> str:
    cells = [{"name": "id", "type": "bigint", "value": key}]
    return json.dumps({"action": "I", "xid": xid, "schema": "public", "table": "orders", "columns": cells})


def declared(folder: Path, source: str) -> Any:
    file = folder / "slot.yaml"
    file.write_text(DECLARED.format(source=source))
    return load(file)


def land(pipeline: Any, folder: Path, name: str) -> None:
    def no_session() -> Any:
        raise AssertionError("so little needs no Spark")

    land_events(step_of(pipeline, folder / "lake", name, no_session))


def landed_rows(folder: Path, *, without: int = 0) -> list[tuple[Any, ...]]:
    """Return what was landed of the source: kind, transaction, position, counts; without: the landing of a redrive."""
    where = f'"row" >= 0 and landing <> {without}'
    sql = f'select kind, transaction_id, pos, expected from t where {where} order by landing, "row"'
    rows = small_tables.query(TablePaths(str(folder / "lake"), "slot").change_events, sql)
    return [(row["kind"], row["transaction_id"], row["pos"], dict(row["expected"] or ())) for row in rows]


FIRST = [marker("B", 10), row(10, 1), marker("C", 10), "no JSON {", marker("B", 20), row(20, 2)]
LAST = [row(20, 3), marker("C", 20)]
OPEN = [
    ("marker", "20:20", None, {}),
    ("row", "20:20", 1, {}),
    ("row", "20:20", 2, {}),
    ("metadata", "20:20", None, {"orders": 2}),
]


def test_a_redrive_between_two_landings_closes_nothing(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox" / "slot"
    inbox.mkdir(parents=True)
    pipeline = declared(tmp_path, f"files: {{path: {tmp_path / 'inbox'}}}")
    (inbox / "1.jsonl").write_text("".join(f"{line}\n" for line in FIRST))
    land(pipeline, tmp_path, "first")
    redrive(step_of(pipeline, tmp_path / "lake", "again"), Selection(everything=True))
    (inbox / "2.jsonl").write_text("".join(f"{line}\n" for line in LAST))
    land(pipeline, tmp_path, "last")
    assert landed_rows(tmp_path, without=2)[4:] == OPEN


class Slot:
    """A topic in which transactions come one after the other, and a pipeline that lands it."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder, self.broker, self.topic = folder, broker, f"{folder.name}.slot"
        broker.create_topic(self.topic)
        self.pipeline = declared(folder, f"kafka: {{brokers: '{broker.address}', topics: [{self.topic}]}}")

    def produce(self, lines: Sequence[str]) -> None:
        self.broker.produce(self.topic, [(None, line) for line in lines])

    def land(self, name: str, lines: Sequence[str] = ()) -> None:
        """Produce lines, then land what is there."""
        self.produce(lines)
        land(self.pipeline, self.folder, name)


@pytest.mark.parametrize("between", [0, 1])
def test_a_topic_of_kafka_goes_on_where_the_last_landing_ended(tmp_path: Path, broker: Broker, between: int) -> None:
    slot = Slot(tmp_path, broker)
    slot.land("first", FIRST)
    for _ in range(between * 2):
        slot.land("nothing new")
    slot.land("last", LAST)
    assert landed_rows(tmp_path)[4:] == OPEN


def test_nothing_goes_on_inside_a_transaction_behind_records_that_were_given_up(tmp_path: Path, broker: Broker) -> None:
    slot = Slot(tmp_path, broker)
    slot.land("first", FIRST)
    slot.produce(LAST)
    broker.delete_records(slot.topic, 0, 7)
    accept_loss(step_of(slot.pipeline, tmp_path / "lake", "accepted"), topics=[slot.topic], reason="CHG-7")
    slot.land("behind the loss")
    assert landed_rows(tmp_path)[4:] == [*OPEN[:2], ("poison", None, None, {})], (
        "a COMMIT makes no transaction of a part"
    )
    slot.land("a new one", [marker("B", 30), row(30, 4)])
    slot.land("its end", [row(30, 5), marker("C", 30)])
    assert landed_rows(tmp_path)[-1] == ("metadata", "30:30", None, {"orders": 2})
