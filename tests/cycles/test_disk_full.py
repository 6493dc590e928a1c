"""A disk that is full in the middle of a file, at whichever write: a clean failure, no torn table, the next run exact.

A limit of the process on the size of files stands for it: the write that meets it fails and leaves half a file, as on a
disk without space (EFBIG in the place of ENOSPC), and needs no disk of its own.
"""

import subprocess
import sys
from pathlib import Path
from random import Random

from deltalake import DeltaTable

from released import Released
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.paths import TablePaths

JOBS = Path(__file__).resolve().parents[2] / "jobs"
LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
LIMITS = (200, 1_500, 6_000, 20_000)
"""Bytes: a commit of the log, a small table's file, a large one's."""
ROWS = 3_000


def run(step: str, declaration: Path, warehouse: Path, limit: int) -> subprocess.CompletedProcess[str]:
    """Run a job that cannot write more bytes into a file."""
    job = [str(JOBS / f"{step}.py"), "--pipeline", str(declaration), "--warehouse", str(warehouse), "--run-id", "r"]
    command = [sys.executable, "-c", LIMITED, str(limit), *job]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def assert_fails_cleanly(done: subprocess.CompletedProcess[str], step: str) -> None:
    assert done.returncode > 0, f"{step} ended with {done.returncode}\n{done.stderr[-2000:]}"
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith(f"txloom {step} failed ("), done.stderr[-2000:]


def assert_whole(paths: TablePaths) -> None:
    """Every table opens, and every file that its newest version names can be read to its end."""
    for folder in Path(paths.warehouse, paths.pipeline).iterdir():
        if DeltaTable.is_deltatable(str(folder)):
            arrow_tables.select(str(folder), "select * from t")


def test_a_merge_that_runs_out_of_space_shows_the_state_before_and_the_next_one_is_exact(tmp_path: Path) -> None:
    chance = Random(7)
    lake = Released(tmp_path, "id: long, note: string")
    notes = {key: chance.randbytes(20).hex() for key in range(ROWS)}
    lake.release(1, [("I", {}, {"id": key, "note": note}) for key, note in notes.items()])
    declaration = tmp_path / "plant.yaml"
    first = run("merge_current", declaration, tmp_path, 1 << 40)
    assert first.returncode == 0, first.stderr[-2000:]
    changed = {key: chance.randbytes(20).hex() for key in range(0, ROWS, 2)}
    lake.release(2, [("U", {"id": key}, {"note": note}) for key, note in changed.items()])

    def shown() -> dict[int, str]:
        return {row["id"]: row["note"] for row in small_tables.query(lake.paths.table("readings"), "select * from t")}

    for limit in LIMITS:
        assert_fails_cleanly(run("merge_current", declaration, tmp_path, limit), "merge_current")
        assert_whole(lake.paths)
        assert shown() == notes, limit
    done = run("merge_current", declaration, tmp_path, 1 << 40)
    assert done.returncode == 0, done.stderr[-2000:]
    assert shown() == {**notes, **changed}
