"""The same flags make the same bytes, and runs that go on make what one long run makes."""

import json
from pathlib import Path

import pytest

from generate.replay import lines, topics
from generate.running import LAYOUTS, digests, generate, generated, json_lines

FORMATS = pytest.mark.parametrize(("name", "layout"), LAYOUTS)
FAULTS = ("--faults", "duplicates=0.05", "lost-rows=0.01", "poison=0.02", "truncated-file=0.5")
BUSY = ("--share-of", "deletes=0.2,key-changes=0.1,truncates=0.02")


def stream(folder: Path) -> dict[str, list[bytes]]:
    """Return the messages of all topics, without the headings of CSV files."""
    return {topic: [line for line in lines(folder, topic) if not line.startswith(b"FLAG,")] for topic in topics(folder)}


@FORMATS
def test_the_same_seed_makes_the_same_bytes(name: str, layout: str, tmp_path: Path) -> None:
    flags = ("--format", name, "--layout", layout, "--transactions", 80, "--files", 3, "--states", *FAULTS)
    first, again, other = (
        digests(generated(tmp_path / position, *flags, "--seed", seed))
        for position, seed in (("first", 5), ("again", 5), ("other", 6))
    )
    assert first == again
    assert not set(first.values()) & set(other.values())


@FORMATS
def test_runs_that_go_on_make_what_one_long_run_makes(name: str, layout: str, tmp_path: Path) -> None:
    flags = ("--format", name, "--layout", layout, "--states", *BUSY)
    whole = generated(tmp_path / "whole", *flags, "--transactions", 200)
    parts = tmp_path / "parts"
    for count in (1, 49, 0, 150):
        generated(parts, *flags, "--append", "--transactions", count)
    assert stream(parts) == stream(whole)
    digests_of_both = [digests(folder / "_source") for folder in (whole, parts)]
    assert {file for file in digests_of_both[0] if digests_of_both[0][file] != digests_of_both[1][file]} == {
        "state.jsonl"
    }
    headers, rows = zip(
        *[(json_lines(f / "_source" / "state.jsonl")[0], _rows(f)) for f in (whole, parts)], strict=True
    )
    assert rows[0] == rows[1]
    assert headers[0] | {"files": 0} == headers[1] | {"files": 0}


def _rows(folder: Path) -> list[bytes]:
    return (folder / "_source" / "state.jsonl").read_bytes().split(b"\n")[1:]


def test_what_was_told_once_holds_for_runs_that_go_on(tmp_path: Path) -> None:
    first = (
        "--format",
        "debezium",
        "--schema",
        "shop",
        "--seed",
        3,
        "--partitions",
        2,
        "--tables",
        "orders,promo_codes",
    )
    generated(tmp_path, *first, "--transactions", 40)
    generated(tmp_path, "--append", "--transactions", 40)
    assert topics(tmp_path) == ["dev.shop.orders", "dev.shop.promo_codes", "dev.transaction"]
    records = [json.loads(line) for line in lines(tmp_path, "dev.shop.orders")]
    assert {record["partition"] for record in records} == {0, 1}
    for partition in (0, 1):
        offsets = [record["offset"] for record in records if record["partition"] == partition]
        assert offsets == list(range(len(offsets)))


def test_neither_faults_nor_formats_change_what_the_source_does(tmp_path: Path) -> None:
    runs = [
        ("--format", "goldengate"),
        ("--format", "wal2json", *FAULTS),
        ("--format", "goldengate", *FAULTS, "reorder=0.1", "late-metadata=0.1", "--files", 9),
    ]
    final = [
        digests(generated(tmp_path / str(position), *flags, "--transactions", 90) / "_source" / "final")
        for position, flags in enumerate(runs)
    ]
    assert final[0] == final[1] == final[2]


def test_states_can_be_kept_from_a_later_run_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generated(tmp_path, "--format", "wal2json", "--transactions", 30)
    base = digests(tmp_path / "_source" / "final")
    generated(tmp_path, "--append", "--transactions", 30, "--states")
    first = json_lines(tmp_path / "_source" / "versions.jsonl")[0]["csn"]
    generated(tmp_path, "--append", "--transactions", 0, "--as-of", first)
    assert digests(tmp_path / "_source" / "as_of" / str(first)) == base
    assert generate(tmp_path, "--append", "--transactions", 0, "--as-of", first - 1) == 2
    message = f"--as-of: found {first - 1}, expected a csn from {first} on, the first that was kept.\n"
    assert capsys.readouterr().err == message


def test_a_later_run_adds_to_the_faults_that_are_told(tmp_path: Path) -> None:
    faults_file = tmp_path / "_source" / "faults.jsonl"
    generated(tmp_path, "--format", "goldengate", "--transactions", 60, *FAULTS)
    before = faults_file.read_bytes()
    generated(tmp_path, "--append", "--transactions", 60, *FAULTS)
    assert before and faults_file.read_bytes().startswith(before) and len(faults_file.read_bytes()) > len(before)


def test_a_run_that_was_killed_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("--format", "goldengate", "--files", 4, "--states", *FAULTS)
    whole = generated(tmp_path / "whole", *flags, "--transactions", 50)
    generated(whole, *flags, "--append", "--transactions", 60)
    killed = generated(tmp_path / "killed", *flags, "--transactions", 50)
    with monkeypatch.context() as patched:
        patched.setattr("txloom.generate.faults.Delivery.rest", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            generate(killed, *flags, "--append", "--transactions", 60)
    assert not list(killed.rglob("*.part"))
    assert digests(killed) != digests(whole)
    generated(killed, *flags, "--append", "--transactions", 60)
    assert digests(killed) == digests(whole)


def _interrupted(_delivery: object) -> None:
    raise KeyboardInterrupt
