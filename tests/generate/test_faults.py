"""Faults are really there, as many as are counted, and nothing else is."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from generate.replay import goldengate, lines, topics, wal2json
from generate.running import generate, generated, json_lines
from txloom.config import find
from txloom.events.goldengate.decoder import GoldenGateDecoder
from txloom.generate.faults import NAMES, Delivery, Faults
from txloom.generate.formats.known import FORMATS, completed, new_writer
from txloom.generate.formats.messages import METADATA, ROW, Message, Writer
from txloom.generate.workload.orders import Position, Workload
from txloom.generate.workload.settings import SIZES, Shares, sizes_of
from txloom.generate.workload.source import Source

PIPELINE = find("orders")
COUNT = 300
Delivered = list[tuple[int, Message]]


class Run:
    """Messages of a workload: as they are sent, and as they are delivered, each with the transaction at that moment."""

    def __init__(self, name: str, **rates: float) -> None:
        self.writer: Writer = new_writer(completed({"format": name, "schema": "public", "seed": 1}))
        self.notes: list[dict[str, Any]] = []
        delivery = Delivery(Faults(**rates), self.writer, 1, self.notes.append, texts_only=False)
        self.sent: Delivered = []
        self.delivered: Delivered = []
        for transaction in workload().transactions(COUNT):
            number = transaction.number
            self.sent += [(number, message) for message in self.writer.messages(transaction)]
            self.delivered += [(number, message) for message in delivery.deliver(transaction)]
        self.delivered += [(COUNT, message) for message in delivery.rest()]
        self.counts = delivery.counts

    def late(self, kind: str) -> int:
        """Return how many messages of a kind were delivered after their own transaction."""
        sent = {message: number for number, message in self.sent}
        return sum(number > sent[message] for number, message in self.delivered if message.kind == kind)

    def by_topic(self, delivered: Delivered) -> dict[str, list[Message]]:
        """Return messages by their topics, in order."""
        by_topic: dict[str, list[Message]] = {}
        for _, message in delivered:
            by_topic.setdefault(message.topic, []).append(message)
        return by_topic


def workload() -> Workload:
    """Return a small workload."""
    return Workload(1, Source(), Position(0, 1000, 0, 0), sizes_of(SIZES), Shares(), 50_000)


def difference(run: Run) -> tuple[Counter[Message], Counter[Message]]:
    """Return what was delivered beyond what was sent, and what was sent and not delivered."""
    sent, delivered = (Counter(message for _, message in each) for each in (run.sent, run.delivered))
    return delivered - sent, sent - delivered


APART = pytest.mark.parametrize("name", [name for name in FORMATS if name != "wal2json"])
COUNTED = pytest.mark.parametrize("name", ["goldengate", "debezium"])


@pytest.mark.parametrize("name", FORMATS)
def test_without_faults_everything_comes_as_it_was_sent(name: str) -> None:
    run = Run(name)
    assert run.delivered == run.sent
    assert not run.counts and not run.notes


@APART
def test_duplicates_are_messages_that_come_once_more_later(name: str) -> None:
    run = Run(name, duplicates=0.05)
    more, less = difference(run)
    assert not less
    assert more.total() == run.counts["duplicates"] > 20
    assert run.late(ROW) + run.late(METADATA) > 0.9 * sum(more[each] for each in more if each.kind != "marker")


def test_in_one_stream_a_reader_that_fell_over_reads_a_transaction_again_from_its_begin() -> None:
    run = Run("wal2json", duplicates=0.1)
    more, less = difference(run)
    assert not less
    assert more.total() == run.counts["duplicates"] > 20
    begins = Counter(message for _, message in run.delivered if message.value and b'"action":"B"' in message.value)
    repeated = {begin.csn for begin, count in begins.items() if count == 2}
    assert repeated == {note["csn"] for note in run.notes} == {message.csn for message in more}
    whole = {message.csn for message in more if message.kind == METADATA}
    assert whole and repeated - whole


@APART
def test_lost_rows_never_come(name: str) -> None:
    run = Run(name, lost_rows=0.02)
    more, less = difference(run)
    assert not more
    assert {message.kind for message in less} == {ROW}
    assert less.total() == run.counts["lost_rows"] > 5


@COUNTED
def test_lost_metadata_never_come(name: str) -> None:
    run = Run(name, lost_metadata=0.05)
    more, less = difference(run)
    assert not more
    assert {message.kind for message in less} == {METADATA}
    assert less.total() == run.counts["lost_metadata"] > 5


@pytest.mark.parametrize("name", FORMATS)
def test_poison_comes_beside_the_messages(name: str) -> None:
    run = Run(name, poison=0.03)
    more, less = difference(run)
    assert not less
    assert more.total() == run.counts["poison"] > 20
    assert all(message.value is not None and b"\n" not in message.value for message in more if name != "change_sets")


def test_poison_of_goldengate_is_poison_and_nothing_else_is() -> None:
    run = Run("goldengate", poison=0.2)
    decoder = GoldenGateDecoder(PIPELINE.tables, "dev.transaction_metadata_json")
    counted: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for topic, messages in run.by_topic(run.delivered).items():
        table = decoder.decode(topic, [message.value for message in messages])
        counted.update(table.column("kind").to_pylist())
        causes.update(table.column("cause").to_pylist())
    assert counted["poison"] == run.counts["poison"]
    assert counted["row"] + counted["metadata"] == len(run.sent)
    del causes[None]
    assert len(causes) == 6, causes


def test_poison_in_one_stream_never_stands_inside_a_transaction() -> None:
    run = Run("wal2json", poison=0.2)
    sent = {message for _, message in run.sent}
    inside = False
    for _, message in run.delivered:
        if message in sent:
            inside = message.kind != METADATA
        else:
            assert not inside


@APART
def test_reorder_lets_topics_drift_and_each_keeps_its_order(name: str) -> None:
    run = Run(name, reorder=0.05)
    assert difference(run) == (Counter(), Counter())
    assert run.by_topic(run.delivered) == run.by_topic(run.sent)
    assert run.late(ROW) == run.counts["reorder"] > 50
    assert run.late(METADATA) == 0


@COUNTED
def test_late_metadata_come_after_rows_of_later_transactions(name: str) -> None:
    run = Run(name, late_metadata=0.02)
    assert run.by_topic(run.delivered) == run.by_topic(run.sent)
    assert run.late(METADATA) == run.counts["late_metadata"] > 20
    assert run.late(ROW) == 0


@COUNTED
def test_early_metadata_come_before_their_rows(name: str) -> None:
    run = Run(name, early_metadata=0.02)
    assert run.by_topic(run.delivered) == run.by_topic(run.sent)
    last = {message.csn: position for position, (_, message) in enumerate(run.delivered) if message.kind == ROW}
    metadata = [
        (message.csn, position) for position, (_, message) in enumerate(run.delivered) if message.kind == METADATA
    ]
    early = sum(position < last.get(csn, -1) for csn, position in metadata)
    assert early == run.counts["early_metadata"] > 20
    assert run.late(METADATA) == 0


@COUNTED
def test_what_is_held_back_to_the_end_comes_twice_too(name: str) -> None:
    run = Run(name, reorder=0.3, late_metadata=0.2, duplicates=0.3)
    more, less = difference(run)
    assert not less
    assert more.total() == run.counts["duplicates"]
    assert sum(number == COUNT for number, _ in run.delivered) > 100


@COUNTED
def test_rows_and_metadata_never_stand_still_together(name: str) -> None:
    run = Run(name, late_metadata=0.2, early_metadata=0.2)
    sent = {message: number for number, message in run.sent}
    late = {kind: {m.csn for n, m in run.delivered if m.kind == kind and n > sent[m]} for kind in (ROW, METADATA)}
    assert late[ROW] and late[METADATA] and not late[ROW] & late[METADATA]


@pytest.mark.parametrize("name", FORMATS)
def test_all_faults_together_are_counted_and_noted(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unfit = {"wal2json": NAMES[1:5], "change_events": NAMES[2:5], "change_sets": NAMES[2:5]}.get(name, ())
    faults = [f"{fault}=0.05" for fault in NAMES if fault not in unfit and fault != "truncated_file"]
    generated(tmp_path, "--format", name, "--transactions", 400, "--files", 5, "--faults", *faults, "truncated_file=1")
    counts = dict(pair.split("=") for pair in capsys.readouterr().out.removeprefix("generate: ").split())
    noted: Counter[str] = Counter()
    for note in json_lines(tmp_path / "_source" / "faults.jsonl"):
        noted[note["fault"]] += note["messages"]
    assert noted == {fault: int(counts[fault]) for fault in NAMES if fault not in unfit}
    assert min(noted.values()) > 0


def test_a_truncated_file_is_a_topics_last_and_lacks_the_end_of_its_last_line(tmp_path: Path) -> None:
    flags = ("--format", "goldengate", "--transactions", 300, "--files", 3)
    clean = generated(tmp_path / "clean", *flags)
    cut = generated(tmp_path / "cut", *flags, "--faults", "truncated-file=0.6")
    truncated = {note["topic"] for note in json_lines(cut / "_source" / "faults.jsonl")}
    assert 0 < len(truncated) < len(topics(cut))
    for topic in topics(clean):
        whole, cut_bytes = ((folder / topic / "00000002.jsonl").read_bytes() for folder in (clean, cut))
        assert cut_bytes.endswith(b"\n") != (topic in truncated)
        assert whole.startswith(cut_bytes) and whole.count(b"\n") - cut_bytes.count(b"\n") == (topic in truncated)
        if topic in truncated:
            with pytest.raises(json.JSONDecodeError):
                json.loads(cut_bytes.rpartition(b"\n")[2].decode(errors="replace"))
        for file in ("00000000.jsonl", "00000001.jsonl"):
            assert (clean / topic / file).read_bytes() == (cut / topic / file).read_bytes()


@pytest.mark.parametrize(
    ("name", "fault", "reason"),
    [
        ("wal2json", "reorder", "reorder, but in wal2json all is one stream"),
        ("wal2json", "lost-metadata", "lost_metadata, but in wal2json no metadata come apart from the rows"),
        ("change_sets", "late-metadata", "late_metadata, but in change_sets no metadata come apart from the rows"),
    ],
)
def test_faults_that_a_format_cannot_have_are_refused(
    name: str, fault: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate(tmp_path, "--format", name, "--faults", f"{fault}=0.1") == 2
    assert capsys.readouterr().err == f"--faults: found {reason}.\n"
    assert not list(tmp_path.iterdir())


def test_records_can_be_read_whatever_is_in_them(tmp_path: Path) -> None:
    folder = generated(tmp_path, "--format", "debezium", "--transactions", 200, "--faults", "poison=0.3")
    records = [record for topic in topics(folder) for record in json_lines(folder / topic / "00000000.jsonl")]
    assert {tuple(record) for record in records} == {("topic", "partition", "offset", "key", "value", "headers")}


def test_duplicates_alone_leave_a_replay_by_identity_as_it_was(tmp_path: Path) -> None:
    flags = ("--transactions", 120, "--files", 4)
    clean = generated(tmp_path / "clean", "--format", "goldengate", *flags)
    doubled = generated(tmp_path / "doubled", "--format", "goldengate", *flags, "--faults", "duplicates=0.2")
    assert len(lines(doubled, "dev.public.orders.json")) > len(lines(clean, "dev.public.orders.json"))
    unique = dict(goldengate_once(doubled))
    assert unique == dict(goldengate(clean))


def goldengate_once(folder: Path) -> list[tuple[int, Any]]:
    """Read rows and metadata once, however often they came."""
    for topic in topics(folder):
        once = list(dict.fromkeys(lines(folder, topic)))
        for file in (folder / topic).iterdir():
            file.unlink()
        (folder / topic / "00000000.jsonl").write_bytes(b"\n".join([*once, b""]))
    return goldengate(folder)


def test_a_lost_row_makes_no_commit_wrong_in_one_stream(tmp_path: Path) -> None:
    flags = ("--format", "wal2json", "--transactions", 100)
    clean = generated(tmp_path / "clean", *flags)
    short = generated(tmp_path / "short", *flags, "--faults", "lost-rows=0.05")
    lost = sum(note["messages"] for note in json_lines(short / "_source" / "faults.jsonl"))
    assert lost == len(lines(clean, "wal2json")) - len(lines(short, "wal2json")) > 10
    assert [csn for csn, _ in wal2json(short)] == [csn for csn, _ in wal2json(clean)]
