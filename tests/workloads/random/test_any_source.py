"""Any workload of any source, as files of bytes, through a lake without a JVM: every cut is a state that it had.

TXLOOM_LAKES says how many (9; `make soak` runs 2,000), TXLOOM_SEED where they begin, TXLOOM_DIMENSIONS=all that they
have what is known to fail too (`workloads.dimensions`).
"""

import os
from pathlib import Path
from typing import Any

import pytest

from txloom.transactions import memory
from workloads.dimensions import SOURCES
from workloads.drawn_lakes import cases
from workloads.judging import run_through
from workloads.play import declared, play
from workloads.small_lake import SmallLake

LAKES = int(os.environ.get("TXLOOM_LAKES", "9"))
SEED = int(os.environ.get("TXLOOM_SEED", "41000004"))


@pytest.mark.parametrize(("source", "seed"), cases(SOURCES, LAKES, SEED))
def test_every_cut_of_any_source_is_a_state_that_it_had(
    tmp_path: Path, monkeypatch: Any, source: str, seed: int
) -> None:
    made = play(seed, source)
    monkeypatch.setattr(memory, "REMEMBERED", made.dimensions.remembered)
    try:
        pipeline, producer = declared(tmp_path, made)
        run_through(SmallLake(tmp_path, pipeline), made, producer)
    except Exception as error:
        error.add_note(f"seed {seed}: {made.dimensions}")
        raise
