"""Select the long tests of a run, and the order of the test files.

TXLOOM_SHARD=2/4 selects the second of four shards of the long tests, and every test that is not long. `.ci/run` runs
one shard for each commit, because all long tests together exceed its time limit.
"""

import os
import zlib
from collections.abc import Mapping

LONGEST = (
    "cluster/test_sample_on_a_cluster.py",
    "cycles/test_killed.py",
    "steps/test_work_counts.py",
    "workloads/random/test_any_lake.py",
    "steps/snapshots/test_diff_snapshot.py",
    "workloads/random/test_any_source.py",
    "storage/buffer/test_checkpoints.py",
    "workloads/random/test_any_workload.py",
    "steps/test_schema_drift.py",
    "steps/audit/test_audit_snapshot.py",
    "steps/audit/test_audit_mysql.py",
    "steps/backfill/test_left_history.py",
    "steps/maintenance/test_maintain_plan.py",
    "steps/snapshots/test_follow_any_snapshots.py",
    "cycles/test_sample.py",
    "steps/backfill/test_backfill.py",
    "steps/buffer/test_producer_checks.py",
    "dags/test_dags.py",
    "workloads/named/test_named_lakes.py",
    "cycles/test_producer_faults.py",
    "steps/buffer/test_micro_batch.py",
    "cycles/test_large.py",
    "storage/targets/test_partitioning.py",
    "steps/landing/test_land_events_kafka.py",
    "steps/buffer/test_late_metadata.py",
    "workloads/named/test_wrapped_ids.py",
    "steps/maintenance/test_expire.py",
    "dags/test_up.py",
    "docs/test_contributing.py",
    "plugins/test_page.py",
    "dags/test_dead_letters.py",
    "dags/test_lived_in.py",
    "dags/test_operations.py",
    "orchestration/test_backfill_runs.py",
)
"""Test files as paths relative to `tests`: slowest first, then the four files that `make lived` runs."""
RANKS: Mapping[str, int] = {name: rank for rank, name in enumerate(LONGEST)}


def rank_of(file: str) -> int:
    """Return the rank of a test file, given as a path relative to `tests`. Files of rank 0 run first."""
    return RANKS.get(file, len(RANKS))


def chosen_shard() -> tuple[int, int] | None:
    """Return the shard that TXLOOM_SHARD selects, counted from 0, and the number of shards.

    Return None if TXLOOM_SHARD is unset or empty: the run then includes all long tests.

    Raises:
        ValueError: TXLOOM_SHARD is not K/N with 1 <= K <= N.
    """
    text = os.environ.get("TXLOOM_SHARD")
    if not text:
        return None
    shard, _, shards = text.partition("/")
    if not (shard.isdecimal() and shards.isdecimal() and 1 <= int(shard) <= int(shards)):
        raise ValueError(
            f"TXLOOM_SHARD={text} is not a shard: expected K/N with 1 <= K <= N. Set a shard such as 2/4, or no value."
        )
    return int(shard) - 1, int(shards)


def is_in_shard(file: str, shard: int, shards: int) -> bool:
    """Return whether a shard, counted from 0, includes the long tests of a file, given as a path relative to `tests`.

    The files in LONGEST are assigned to the shards in turn, so that each shard gets an equal part of the slowest files.
    All other files are assigned by a digest of the path.
    """
    number = RANKS[file] if file in RANKS else zlib.crc32(file.encode())
    return number % shards == shard
