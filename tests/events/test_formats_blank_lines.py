"""Blank lines of files hold no message: they are counted as tombstones, and nobody has to settle them."""

import json
from pathlib import Path

import pytest

from events.goldengate.test_decoder import AFTER, GOOD
from txloom.config import find
from txloom.config.models.pipeline import Pipeline
from txloom.config.models.source import Kafka
from txloom.events import rejections
from txloom.events.formats import SourceDecoder
from txloom.storage.snapshots.snapshot_files import SnapshotFile, images
from txloom.storage.sources.files import records

ROW = json.dumps({**GOOD, "after": AFTER}).encode()
BLANKS = [b"", b"  ", b"\r", b"\t\r"]


def from_files(name: str) -> Pipeline:
    pipeline = find(name if name == "orders" else f"include/pipelines/examples/{name}.yaml")
    source = {"files": find("orders").source.files, "kafka": None}
    return pipeline.model_copy(update={"source": pipeline.source.model_copy(update=source)})


@pytest.mark.parametrize("name", ["orders", "orders_debezium", "orders_wal2json", "change_events", "change_sets"])
def test_a_blank_line_of_a_file_is_no_dead_letter(name: str) -> None:
    events = SourceDecoder(from_files(name)).decode("rows", BLANKS)
    assert events.column("kind").to_pylist() == ["tombstone"] * len(BLANKS)


def test_the_lines_around_it_keep_their_places() -> None:
    events = SourceDecoder(find("orders")).decode("rows", [ROW, b"", ROW])
    assert events.column("kind").to_pylist() == ["row", "tombstone", "row"]


def test_an_empty_record_of_a_topic_is_told() -> None:
    pipeline = find("orders")
    kafka = {"kafka": Kafka(brokers="localhost:9092", topics=("rows",)), "files": None}
    pipeline = pipeline.model_copy(update={"source": pipeline.source.model_copy(update=kafka)})
    events = SourceDecoder(pipeline).decode("rows", [b"", b" "])
    assert events.column("cause").to_pylist() == [rejections.EMPTY] * 2


def test_a_blank_line_between_records_is_none() -> None:
    assert records(BLANKS) == ([None] * 4, [None] * 4)


def test_a_blank_line_of_a_snapshot_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"code":"a"}\n\n\r\n{"code":"b"}\n')
    file = SnapshotFile("promo_codes", str(path), path.stat().st_size)
    assert list(images(file, find("orders").table("promo_codes"))) == [(1, [b'{"code":"a"}', b'{"code":"b"}'])]
