"""One real load, captured three ways, through each format's own declaration: the same final tables."""

import gzip
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lake import ORDERS, Lake, new_lake, shown
from oracle import capture, comparison, values
from txloom.config import load
from txloom.config.models.source import Files

CAPTURE = Path(__file__).resolve().parents[1] / "data" / "orders"
EXAMPLES = ORDERS.parent / "examples"
RUNS = 4
Record = dict[str, Any]


def lines(name: str) -> list[str]:
    with gzip.open(CAPTURE / name, "rt") as stream:
        return stream.read().splitlines()


def declared(lake: Lake, example: str, **files: Any) -> None:
    """Take another declaration, without its expectations, as `new_lake` does; files: let it read files, not Kafka."""
    lake.pipeline = load(EXAMPLES / f"{example}.yaml").model_copy(update={"expectations": ()})
    if files:
        source_fields = {"kafka": None, "files": Files(path=str(lake.folder / "inbox"), **files)}
        source = lake.pipeline.source.model_copy(update=source_fields)
        lake.pipeline = lake.pipeline.model_copy(update={"source": source})


def goldengate(lake: Lake) -> Iterator[dict[str, list[str]]]:
    """Yield by topic the messages of each run, as they were delivered."""
    delivered = [json.loads(line) for line in lines("goldengate/delivery.jsonl.gz")]
    topics = {message["topic"] for message in delivered}
    for number in range(RUNS):
        share = delivered[number * len(delivered) // RUNS : (number + 1) * len(delivered) // RUNS]
        by_topic = {topic: [each["value"] for each in share if each["topic"] == topic] for topic in topics}
        yield {topic: messages for topic, messages in by_topic.items() if messages}  # an empty file is still written


def wal2json(lake: Lake) -> Iterator[dict[str, list[str]]]:
    """Yield the stream cut in the middle of transactions."""
    declared(lake, "orders_wal2json")
    stream = lines("../wal2json/from_empty.jsonl.gz")
    for number in range(RUNS):
        yield {"shop": stream[number * len(stream) // RUNS : (number + 1) * len(stream) // RUNS]}


def debezium(lake: Lake) -> Iterator[dict[str, list[str]]]:
    """Yield records as they lay in Kafka; each topic is cut at its own places, so that topics drift apart."""
    declared(lake, "orders_debezium", layout="records")
    topics = {
        file.name.removesuffix(".jsonl.gz"): lines(f"debezium/{file.name}") for file in (CAPTURE / "debezium").iterdir()
    }
    for number in range(RUNS):
        yield {
            topic: records[number * len(records) // RUNS : (number + 1) * len(records) // RUNS]
            for topic, records in topics.items()
        }


@pytest.mark.long
@pytest.mark.parametrize("stream", [goldengate, pytest.param(wal2json, marks=pytest.mark.stream), debezium])
def test_the_three_streams_of_one_load_end_in_the_same_tables(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: Any
) -> None:
    lake = new_lake(spark, tmp_path, monkeypatch)
    for number, topics in enumerate(stream(lake)):
        for topic, messages in topics.items():
            (lake.inbox / topic).mkdir(exist_ok=True)
            (lake.inbox / topic / f"{number}.jsonl").write_text("".join(f"{message}\n" for message in messages))
        lake.run()
    tables = shown(lake)
    documents = tables.pop("documents")
    differences = comparison.differences(values.typed_state(capture.truth()), tables)
    assert not differences, comparison.report(differences)
    assert len(documents) == len(tables["orders"])
    assert lake.query("dead_letters", "select cause, detail from t") == []
    assert lake.query("pending_transactions", "select count(*) as n from t") == [{"n": 0}]
    assert all(line["balanced"] for line in lake.query("ledger", "select balanced from t where step = 'balance'"))


def test_a_snapshot_shows_nothing_before_all_of_it_has_come(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = new_lake(spark, tmp_path, monkeypatch)
    declared(lake, "orders_debezium", layout="records")
    first, rest, _ = snapshot_and_stream()
    changed = {"completeness": lake.pipeline.completeness.model_copy(update={"patience": timedelta(0)})}
    lake.pipeline = lake.pipeline.model_copy(update=changed)
    for number, records in enumerate((first, rest)):
        send(lake, records, number)
        assert lake.run()["buffer_transactions"]["released"] == len(records)
        assert {name: len(rows) for name, rows in shown(lake).items() if rows} == {}
        assert [cut["valid_through"] for cut in lake.query("cuts", "select valid_through from t")] in ([], [0])
    assert lake.run()["merge_current"]["valid_through"] == lsn(rest[0])
    assert lake.query("dead_letters", "select cause from t") == []
    sent = {
        topic: sum(each["topic"] == topic for each in (*first, *rest)) for topic in {each["topic"] for each in first}
    }
    tables = shown(lake)
    assert {f"dev.public.{name}": len(rows) for name, rows in tables.items() if name != "documents"} == sent
    assert len(tables["documents"]) == sent["dev.public.orders"]


def test_a_stream_that_comes_before_the_last_rows_of_the_snapshot_shows_nothing_either(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = new_lake(spark, tmp_path, monkeypatch)
    declared(lake, "orders_debezium", layout="records", settle=timedelta(hours=1))
    first, rest, stream = snapshot_and_stream()
    behind = "dev.public.order_attachments"
    send(lake, first, 0)
    send(lake, [each for each in (*rest, *stream) if each["topic"] != behind], 1)
    send(lake, [each for each in (*rest, *stream) if each["topic"] == behind], 1, ended=False)
    lake.run()
    assert {name: len(rows) for name, rows in shown(lake).items() if rows} == {}
    with (lake.inbox / behind / "1.jsonl").open("a") as file:
        file.write("\n")
    lake.run()
    tables = shown(lake)
    del tables["documents"]
    differences = comparison.differences(values.typed_state(capture.truth()), tables)
    assert not differences, comparison.report(differences)
    assert all(not cut["amends"] for cut in lake.query("cuts", "select amends from t"))


def snapshot_and_stream() -> tuple[list[Record], list[Record], list[Record]]:
    """Return half of each partition's part of the snapshot, the other half, and what came behind it."""
    records = [
        json.loads(line) for file in sorted((CAPTURE / "debezium").iterdir()) for line in lines(f"debezium/{file.name}")
    ]
    rows: dict[tuple[str, int], list[Record]] = {}
    stream: list[Record] = []
    for each in records:
        is_row = each["value"] is not None and json.loads(each["value"]).get("op") == "r"
        (rows.setdefault((each["topic"], each["partition"]), []) if is_row else stream).append(each)
    first = [each for records in rows.values() for each in records[: len(records) // 2]]
    return first, [each for records in rows.values() for each in records[len(records) // 2 :]], stream


def send(lake: Lake, records: list[Record], number: int, *, ended: bool = True) -> None:
    """Deliver records, a file for each topic; one that is not ended is still being written."""
    for topic in {each["topic"] for each in records}:
        (lake.inbox / topic).mkdir(exist_ok=True)
        records_of = [json.dumps(each) for each in records if each["topic"] == topic]
        (lake.inbox / topic / f"{number}.jsonl").write_text("\n".join(records_of) + "\n" * ended)


def lsn(record: Record) -> int:
    position: int = json.loads(record["value"])["source"]["lsn"]
    return position
