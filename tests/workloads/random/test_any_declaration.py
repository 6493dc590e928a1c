"""Any workload under a declaration that is edited at any moment: every cut is a state that the source had.

TXLOOM_EDITED says how many (9; `make soak` runs 2,000), TXLOOM_SEED where they begin. Of 20 lakes one goes through
Spark; TXLOOM_EDITED_BY=spark sends all of them there, TXLOOM_EDITED_BY=process none. TXLOOM_EDITED_SOURCE plays lakes
of one source only, such as debezium/mysql: a seed and its source name a lake.
"""

import os
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from txloom.transactions import memory
from workloads.dimensions import SOURCES, edited
from workloads.drawn_lakes import cases
from workloads.edited.judged_lake import Edited
from workloads.play import Play, play
from workloads.spark_lake import SparkLake, draw_limits

LAKES = int(os.environ.get("TXLOOM_EDITED", "9"))
SEED = int(os.environ.get("TXLOOM_SEED", "51000000"))
if ONLY := os.environ.get("TXLOOM_EDITED_SOURCE"):
    SOURCES = (ONLY,)
SHARE = 20


def is_by_spark(seed: int) -> bool:
    """Return whether the lake of a seed goes through Spark."""
    by = os.environ.get("TXLOOM_EDITED_BY")
    return by == "spark" or (by != "process" and seed % SHARE == SHARE - 1)


@pytest.mark.stream
@pytest.mark.parametrize(("source", "seed"), cases(SOURCES, LAKES, SEED))
def test_every_cut_is_a_state_by_the_declaration_of_its_time(
    tmp_path: Path,
    monkeypatch: Any,
    request: pytest.FixtureRequest,
    record_property: Any,
    source: str,
    seed: int,
) -> None:
    by_spark = is_by_spark(seed)
    made = play(seed, dimensions=edited(seed, source), most=6 if by_spark else 20, renames=True)
    monkeypatch.setattr(memory, "REMEMBERED", made.dimensions.remembered)
    lake = _by_spark(tmp_path, made, monkeypatch, request) if by_spark else Edited(tmp_path, made)
    try:
        lake.run()
    except BaseException as error:
        error.add_note(f"seed {seed}: {made.dimensions}, drawn: {dict(lake.drawn)}")
        raise
    finally:
        record_property("drawn", dict(lake.drawn) | {"by Spark": int(by_spark)})


def _by_spark(folder: Path, made: Play, monkeypatch: Any, request: pytest.FixtureRequest) -> Edited:
    """Return a lake of Spark's, of which each step draws what is small enough for this process."""
    chance = Random(made.seed)

    def draw() -> None:
        draw_limits(monkeypatch, chance, by_spark=chance.random() < 0.5)

    return Edited(folder, made, partial(SparkLake, spark=request.getfixturevalue("spark")), before_each=draw)
