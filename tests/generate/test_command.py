"""`txloom generate`: where files lie, what it prints, and what it refuses."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from generate.replay import goldengate, topics
from generate.running import digests, generate, generated, json_lines
from txloom.generate.output_files import Files

Captured = pytest.CaptureFixture[str]
METADATA = "dev.transaction_metadata_json"


def names(folder: Path, topic: str) -> list[str]:
    """Return a topic's files."""
    return sorted(path.name for path in (folder / topic).iterdir())


def test_each_slice_is_a_whole_file_in_every_topic(tmp_path: Path) -> None:
    folder = generated(tmp_path, "--format", "goldengate", "--transactions", 200, "--files", 5)
    assert names(folder, METADATA) == [f"{number:08}.jsonl" for number in range(5)]
    counts = [len(json_lines(folder / METADATA / name)) for name in names(folder, METADATA)]
    assert counts == [40] * 5
    assert all(path.read_bytes().endswith(b"\n") for topic in topics(folder) for path in (folder / topic).iterdir())


def test_files_have_temporary_names_until_they_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def close(files: Files, cuts: Callable[[str], bool] | None = None) -> None:
        seen.extend(names(tmp_path, METADATA))
        whole(files, cuts)

    whole = Files.close
    monkeypatch.setattr(Files, "close", close)
    generated(tmp_path, "--format", "goldengate", "--transactions", 20, "--files", 2)
    assert seen == [".00000000.jsonl.part", ".00000001.jsonl.part", "00000000.jsonl"]


def test_a_later_run_writes_further_files(tmp_path: Path) -> None:
    generated(tmp_path, "--format", "change_sets", "--transactions", 50, "--files", 2)
    before = digests(tmp_path / "public.orders")
    generated(tmp_path, "--append", "--transactions", 50, "--files", 3)
    assert names(tmp_path, "public.orders") == [f"{number:08}.csv" for number in range(5)]
    assert before.items() <= digests(tmp_path / "public.orders").items()
    assert {path.read_text().partition(",")[0] for path in (tmp_path / "public.orders").iterdir()} == {"FLAG"}


def test_more_slices_than_transactions_are_as_many_as_there_are(tmp_path: Path) -> None:
    generated(tmp_path, "--format", "wal2json", "--transactions", 3, "--files", 10)
    assert names(tmp_path, "wal2json") == [f"{number:08}.jsonl" for number in range(3)]


def test_it_says_what_it_wrote(tmp_path: Path, capsys: Captured) -> None:
    generated(
        tmp_path, "--format", "wal2json", "--transactions", 20, "--rows-per-transaction", 5, "--share-of", "empty=0"
    )
    counts = dict(pair.split("=") for pair in capsys.readouterr().out.removeprefix("generate: ").split())
    size = (tmp_path / "wal2json" / "00000000.jsonl").stat().st_size
    assert (counts["transactions"], counts["rows"], counts["messages"], counts["files"]) == ("20", "100", "140", "1")
    assert (counts["bytes"], counts["out"]) == (str(size), str(tmp_path))


def test_minutes_and_rate_say_how_many_transactions_and_when(tmp_path: Path) -> None:
    flags = ("--rate", 2, "--minutes", 1.5, "--start-time", "2030-06-01T12:00:00+02:00", "--start-csn", 10**12)
    folder = generated(tmp_path, "--format", "goldengate", *flags)
    metadata = json_lines(folder / METADATA / "00000000.jsonl")
    assert len(metadata) == 180
    assert all(10**12 < int(each["csn"]) < 10**12 + 10**6 for each in metadata)
    times = [datetime.fromisoformat(each["tx_ts"]) for each in metadata]
    assert times[0] > datetime(2030, 6, 1, 9, 59) and 60 < (times[-1] - times[0]).total_seconds() < 120


def test_a_producer_that_captures_some_tables_counts_only_those(tmp_path: Path) -> None:
    folder = generated(tmp_path, "--format", "goldengate", "--transactions", 100, "--tables", "orders,audit_log")
    assert topics(folder) == ["dev.public.audit_log.json", "dev.public.orders.json", METADATA]
    assert {event.table for _, events in goldengate(folder) for event in events} == {"orders"}
    assert names(folder / "_source", "final") == ["orders.jsonl"]


def test_topics_and_schema_have_the_names_that_are_asked_for(tmp_path: Path) -> None:
    flags = ("--schema", "APP", "--topic", "gg.{table}", "--transaction-topic", "gg.tx", "--tables", "orders")
    folder = generated(tmp_path, "--format", "goldengate", "--transactions", 9, *flags)
    assert topics(folder) == ["gg.orders", "gg.tx"]
    assert {row["table"] for row in json_lines(folder / "gg.orders" / "00000000.jsonl")} == {"APP.ORDERS"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("", "--format: found nothing, expected the format of the messages."),
        ("--format wal2json --layout csv", "--layout: found csv, but wal2json has values and records."),
        ("--format wal2json --transaction-topic t", "--transaction-topic: found 't', but wal2json has none."),
        ("--format wal2json --topic {table}", "--topic: found '{table}', expected one topic for all tables."),
        (
            "--format debezium --topic rows",
            "--topic: found 'rows', expected a name with {table} in it, and perhaps {schema}.",
        ),
        (
            "--format debezium --topic ../{table}",
            "--topic: found '../{table}', expected a name with {table} in it, and perhaps {schema}.",
        ),
        ("--files 0", "--files: found 0, expected at least 1."),
        ("--seed -1", "--seed: found -1, expected at least 0."),
        ("--rate 0", "--rate: found 0, expected commits a second, more than 0."),
        ("--rate nan", "--rate: found nan, expected commits a second, more than 0."),
        ("--minutes 1 --transactions 5", "--minutes: found beside --transactions, expected one of them."),
        ("--transactions -5", "--transactions, --minutes: found -5 transactions, expected 0 or more."),
        (
            "--tables orders,items",
            "--tables: found items, expected some of orders, order_details, order_line_items, order_attachments, "
            "promo_codes, promo_uses, audit_log.",
        ),
        (
            "--start-time noon",
            "--start-time: found 'noon', expected a time such as 2026-01-01T00:00:00Z.",
        ),
        (
            "--start-time 1969-12-31",
            "--start-time: found '1969-12-31', expected a time such as 2026-01-01T00:00:00Z.",
        ),
        (
            "--rows-per-transaction 5-3",
            "--rows-per-transaction: found '5-3', expected rows or a range of them, with how often: 8, 1-12 or "
            "1-3:30,4-8:50,200:1.",
        ),
        (
            "--share-of delete=0.1",
            "--share-of: found 'delete', expected one of deletes, key_changes, truncates, empty. "
            "Did you mean 'deletes'?",
        ),
        ("--share-of deletes=2", "--share-of: found 'deletes=2', expected deletes=SHARE with a share from 0 to 1."),
        (
            "--share-of deletes=0.6 key-changes=0.6",
            "--share-of: found shares of statements above 1 together, expected at most 1.",
        ),
        ("--faults poison", "--faults: found 'poison', expected poison=SHARE with a share from 0 to 1."),
        ("--faults poison=nan", "--faults: found 'poison=nan', expected poison=SHARE with a share from 0 to 1."),
    ],
)
def test_what_cannot_be_is_refused(flags: str, message: str, tmp_path: Path, capsys: Captured) -> None:
    assert generate(tmp_path, *flags.split()) == 2
    assert capsys.readouterr().err == f"{message}\n"
    assert not list(tmp_path.iterdir())


def test_what_is_no_folder_is_refused(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "file").write_text("mine")
    assert generate(tmp_path / "file", "--format", "wal2json") == 2
    assert capsys.readouterr().err == f"--out: found {tmp_path}/file, expected a folder: File exists.\n"
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "",
            "--out: found an earlier run in {out}, expected none. --append goes on where it stopped, another folder "
            "begins anew.",
        ),
        ("--append --seed 2", "--seed: found 2, but the run before began with 1."),
        ("--append --format debezium", "--format: found debezium, but the run before began with goldengate."),
    ],
)
def test_a_later_run_cannot_change_what_the_first_one_was(
    flags: str, message: str, tmp_path: Path, capsys: Captured
) -> None:
    generated(tmp_path, "--format", "goldengate", "--transactions", 5)
    before = digests(tmp_path)
    capsys.readouterr()
    assert generate(tmp_path, *flags.split()) == 2
    assert capsys.readouterr().err == f"{message.format(out=tmp_path)}\n"
    assert digests(tmp_path) == before


@pytest.mark.parametrize("content", ["", "[]\n", '{"shape": {}}\n', '{"code": ["P1"]}\n', "\x00"])
def test_a_damaged_state_is_refused(content: str, tmp_path: Path, capsys: Captured) -> None:
    generated(tmp_path, "--format", "goldengate", "--transactions", 5)
    (tmp_path / "_source" / "state.jsonl").write_text(content)
    capsys.readouterr()
    assert generate(tmp_path, "--append") == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path}/_source/state.jsonl: found something else than an earlier")
