"""The state of a stream is written as a snapshot by a job that ends soon, and old changelogs do not pile up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
JOB = """
import sys, time
from txloom.storage.spark.session import open_session
folder = sys.argv[1]
spark = open_session("short", "buffer_transactions")
spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "1")

def release(frame, number):
    frame.count()
    time.sleep(4)

counts = spark.readStream.schema("key bigint").json(f"{folder}/in").groupBy("key").count()
query = counts.writeStream.outputMode("update").foreachBatch(release).trigger(availableNow=True)
query.option("checkpointLocation", f"{folder}/state").start().awaitTermination()
"""
"""A job with txloom's own session, whose one batch takes no longer than a release does."""


def test_a_job_of_one_batch_leaves_a_snapshot_of_its_state(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"key": 1}\n{"key": 2}\n')
    include = str(Path(__file__).parents[3] / "include")
    environment = {**os.environ, "PYTHONPATH": include}
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    snapshots = sorted(path.name for path in (tmp_path / "state" / "state" / "0").glob("*/*.zip"))
    assert set(snapshots) == {"1.zip"}
