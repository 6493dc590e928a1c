"""One real load, captured three ways, through each format's own declaration: the same final tables."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lake import ORDERS, Lake, new_lake, shown
from oracle import capture, comparison, values
from txloom.config import load
from txloom.config.source import Files

CAPTURE = Path(__file__).resolve().parents[1] / "data" / "orders"
EXAMPLES = ORDERS.parent / "examples"
RUNS = 4


def lines(name: str) -> list[str]:
    with gzip.open(CAPTURE / name, "rt") as stream:
        return stream.read().splitlines()


def declared(lake: Lake, example: str, **files: str) -> None:
    """Take another declaration; files: let it read files instead of Kafka."""
    lake.pipeline = load(EXAMPLES / f"{example}.yaml")
    if files:
        own = {"kafka": None, "files": Files(path=str(lake.folder / "inbox"), **files)}
        source = lake.pipeline.source.model_copy(update=own)
        lake.pipeline = lake.pipeline.model_copy(update={"source": source})


def goldengate(lake: Lake) -> Iterator[dict[str, list[str]]]:
    """Yield by topic the messages of each run, as they were delivered."""
    delivered = [json.loads(line) for line in lines("goldengate/delivery.jsonl.gz")]
    topics = {message["topic"] for message in delivered}
    for number in range(RUNS):
        share = delivered[number * len(delivered) // RUNS : (number + 1) * len(delivered) // RUNS]
        yield {topic: [each["value"] for each in share if each["topic"] == topic] for topic in topics}


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
        yield {topic: own[number * len(own) // RUNS : (number + 1) * len(own) // RUNS] for topic, own in topics.items()}


@pytest.mark.parametrize("stream", [goldengate, wal2json, debezium])
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
    found = comparison.differences(values.typed_state(capture.truth()), tables)
    assert not found, comparison.report(found)
    assert len(documents) == len(tables["orders"])
    assert lake.query("dead_letters", "select cause, detail from t") == []
    assert lake.query("pending_transactions", "select count(*) as n from t") == [{"n": 0}]
    assert all(line["balanced"] for line in lake.query("ledger", "select balanced from t where step = 'balance'"))
