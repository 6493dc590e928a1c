"""TPC-B: the balances of branches, tellers and accounts and the history's amounts have one sum, whenever one looks."""

from collections.abc import Iterator
from random import Random

import pytest

from oracle import values
from oracle.capture import Message
from public.source import Row, Source, assert_shown, pipeline_of, shuffled, states
from public.tpc import tpcb
from txloom.config.models.pipeline import Pipeline
from workloads.core import Core
from workloads.delivery import deliver

SOURCE = "pgbench, built-in script tpcb-like (PostgreSQL documentation); TPC Benchmark B, consistency"
TRANSACTIONS, LANDINGS = 120, 15
SEEDS = range(4)


@pytest.fixture(scope="module")
def source() -> Source:
    made = tpcb.populated()
    tpcb.play(made, TRANSACTIONS, Random(1994))
    return made


@pytest.fixture(scope="module")
def pipeline(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return pipeline_of(source, tmp_path_factory.mktemp("tpcb"))


def seen(core: Core, source: Source, landings: list[list[Message]]) -> Iterator[int]:
    """Yield valid-through after each landing, where what is shown has one sum and is what the source held."""
    for shown in states(core, landings):
        assert len(tpcb.sums(shown)) == 1, f"as of {core.valid_through}: {tpcb.sums(shown)}"
        assert_shown(core, source)
        yield core.valid_through


def test_the_source_itself_keeps_the_invariant(source: Source) -> None:
    assert len(tpcb.sums(source.rows)) == 1
    assert tpcb.sums(source.rows) != {0}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sums_are_one_after_every_landing(source: Source, pipeline: Pipeline, seed: int) -> None:
    core = Core(pipeline)
    reached = list(seen(core, source, shuffled(source.sent, seed, LANDINGS)))
    assert reached == sorted(reached) and reached[-1] == source.csn
    assert len(set(reached)) > 5


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sums_are_one_where_rows_are_lost(source: Source, pipeline: Pipeline, seed: int) -> None:
    delivery = deliver(source.sent, Random(seed), in_order=True, losses=True)
    core = Core(pipeline)
    reached = list(seen(core, source, delivery.landings))
    assert delivery.lost and reached[-1] < min(delivery.lost)


def test_the_sums_are_one_in_every_interval(source: Source, pipeline: Pipeline) -> None:
    core = Core(pipeline)
    for _ in states(core, shuffled(source.sent, 7, 3)):
        pass
    intervals = {name: core.intervals(name) for name in tpcb.SUMS}
    for each in source.sent:
        held = {name: dict(enumerate(row for row in rows if holds(row, each.csn))) for name, rows in intervals.items()}
        assert len(tpcb.sums(held)) == 1, each.csn


def holds(interval: Row, csn: int) -> bool:
    end = interval["_txloom_valid_to"]
    return bool(interval["_txloom_valid_from"] <= csn and (end is None or csn < end))


@pytest.mark.parametrize("name", tpcb.SUMS)
def test_one_missing_change_is_another_sum(source: Source, name: str) -> None:
    before, after = source.sent[-2].state, source.sent[-1].state
    torn = values.typed_state(after | {name: before[name]}, source.shape.tables)
    assert len(tpcb.sums(torn)) == 2
