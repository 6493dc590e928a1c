"""Which tests run the buffer as a stream of Spark's: enough of them, and all that lose, damage or outlive its state."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).resolve().parents[1]
WHOLE = (
    "storage/buffer/test_checkpoints.py",
    "steps/buffer/test_late_metadata.py",
    "steps/maintenance/test_expire.py",
    "cycles/test_killed.py",
    "cycles/test_large.py",
    "cycles/test_sample.py",
    "workloads/random/test_any_lake.py",
)
"""Files of which every test runs it: kills, restarts, damage, rebuilds, large batches, what maintenance takes away."""
RULES = {
    "a lost checkpoint beside faults": "cycles/test_producer_faults.py: test_a_lost_checkpoint_is_rebuilt_from_",
    "a redrive that is killed": "steps/dead_letters/test_redrive.py: test_a_redrive_killed_after_its_writes_is_done_",
    "death and loss of the checkpoint": "workloads/named/test_named_lakes.py: test_the_jobs_write_it_once_too",
    "a rebuild after duplicates": "workloads/named/test_given_up.py: test_a_rebuild_counts_once_what_was_given_up_",
    "a rebuild after two deaths": "workloads/named/test_given_up.py: test_a_rebuild_counts_each_time_that_a_",
    "GoldenGate": "cycles/test_large.py: test_a_large_batch_gives_what_small_ones_give",
    "Debezium": "cycles/test_live_debezium.py: test_tables_equal_the_database_through_a_load_and_a_worker_",
    "wal2json": "cycles/test_three_formats.py: test_the_three_streams_of_one_load_end_in_the_same_tables",
    "change sets": "cycles/test_examples.py: test_a_change_set_leaves_what_its_last_rows_say",
    "change events": "cycles/test_examples.py: test_the_resolvers_example",
    "extracts": "cycles/test_examples.py: test_the_difference_of_two_extracts",
    "Kafka": "steps/landing/test_land_events_kafka.py: test_records_are_landed_once_with_partition_and_offset",
}


class Written(NamedTuple):
    """A test: file and name, and whether it, one of its parameters or its file is marked `stream`."""

    name: str
    is_marked: bool


@cache
def written_tests() -> list[Written]:
    """Return all tests that are functions of a file."""
    return [test for file in sorted(TESTS.rglob("test_*.py")) for test in _written(file)]


def _written(file: Path) -> Iterator[Written]:
    body = ast.parse(file.read_text()).body
    named = {ast.unparse(each.targets[0]): ast.unparse(each.value) for each in body if isinstance(each, ast.Assign)}
    for each in body:
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
            marks = [named.get("pytestmark", ""), *_marks(each, named)]
            yield Written(f"{file.relative_to(TESTS)}: {each.name}", any("mark.stream" in mark for mark in marks))


def _marks(test: ast.FunctionDef, named: Mapping[str, str]) -> Iterator[str]:
    """Yield a test's decorators, and what stands under names in them."""
    for decorator in test.decorator_list:
        yield ast.unparse(decorator)
        yield from (named.get(each.id, "") for each in ast.walk(decorator) if isinstance(each, ast.Name))


def test_at_least_thirty_tests_run_the_real_stream() -> None:
    assert sum(test.is_marked for test in written_tests()) >= 30


@pytest.mark.parametrize("file", WHOLE)
def test_every_test_of_these_files_runs_the_real_stream(file: str) -> None:
    marked = [test.is_marked for test in written_tests() if test.name.startswith(f"{file}: ")]
    assert marked and all(marked)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_of_checkpoints_and_each_format_is_seen_by_the_real_stream(rule: str) -> None:
    (test,) = (test for test in written_tests() if test.name.startswith(RULES[rule]))
    assert test.is_marked, test.name
