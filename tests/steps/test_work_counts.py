"""How much work each step of a cycle does, in numbers that no machine changes: STEPS, COMMITS and GROWS bound it.

A change that makes a step do more turns this red, whether or not a clock would show it: a table that is opened once
more, a query more, rows that are read into Python, a second commit where one did, a JVM. Where a step has to do more,
or now does less, write the new numbers into the tables: a failing test prints them as they are.

What grows with the number of landings is measured twice, after FRESH landings and after more: STEPS are the numbers
after FRESH, and GROWS says what may be more for each landing since. What GROWS does not name must not grow.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import pytest

from steps.counted.tiny_shop import TinyShop
from steps.counted.work import Work
from txloom.config import names

STEPS = """
when  | step                        |  tables |     log |    data | queries |    rows |    JVMs
idle  | check_source                |       9 |      66 |      25 |      10 |      16 |       0
idle  | alert                       |      18 |      88 |      55 |      15 |      16 |       0
cycle | check_source                |       9 |      66 |      25 |      10 |      16 |       0
cycle | land_events                 |      44 |      67 |      18 |      20 |      36 |       0
cycle | buffer_transactions         |      52 |      76 |      14 |      10 |      30 |       1
cycle | merge_current               |      46 |      85 |      24 |      11 |      10 |       0
cycle | check_expectations.totals   |      15 |      42 |      21 |       8 |       7 |       0
cycle | check_expectations.orphans  |      15 |      43 |      22 |       7 |       7 |       0
cycle | check_expectations.versions |      11 |      37 |      18 |      10 |      10 |       0
cycle | check_expectations.stuck    |      11 |      37 |      13 |       7 |       9 |       0
cycle | publish                     |      32 |     105 |      22 |      11 |       9 |       0
cycle | alert                       |      18 |     103 |      61 |      15 |      17 |       0
cycle | a task's end                |       1 |      12 |       0 |       1 |       0 |       0
"""
COMMITS = """
step                | table                | commits
alert               | incidents            | 1
land_events         | change_events        | 2
land_events         | file_positions       | 1
land_events         | landed_files         | 1
land_events         | leases               | 2
land_events         | ledger               | 1
buffer_transactions | leases               | 2
buffer_transactions | ledger               | 2
buffer_transactions | lines_changes        | 1
buffer_transactions | order_stream         | 1
buffer_transactions | orders_changes       | 1
buffer_transactions | pending_transactions | 1
buffer_transactions | transactions         | 1
merge_current       | leases               | 2
merge_current       | ledger               | 1
merge_current       | lines                | 1
merge_current       | orders               | 1
merge_current       | orders_current       | 1
check_expectations  | expectation_results  | 1
check_expectations  | leases               | 2
publish             | cuts                 | 1
publish             | leases               | 2
publish             | ledger               | 1
"""
GROWS = """
of                   | what |  idle | cycle
change_events        | data |     1 |     1
change_events        | log  |     2 |     6
cuts                 | data |     2 |     7
cuts                 | log  |     2 |     7
cuts                 | rows |     1 |     1
expectation_results  | data |     4 |     8
expectation_results  | log  |     4 |    24
file_positions       | data |     2 |     3
file_positions       | log  |     2 |     4
file_positions       | rows |     2 |     6
incidents            | log  |     2 |     4
landed_files         | data |     1 |     4
landed_files         | log  |     2 |     5
ledger               | data |     1 |     4
ledger               | log  |    10 |    30
lines                | data |     0 |     3
lines                | log  |     0 |     4
lines_changes        | log  |     0 |     2
order_stream         | log  |     0 |     1
orders               | data |     0 |     2
orders               | log  |     0 |     4
orders_changes       | data |     0 |     1
orders_changes       | log  |     0 |     3
orders_current       | log  |     0 |     2
pending_transactions | log  |     2 |     6
transactions         | data |     0 |     2
transactions         | log  |     2 |     6
"""
"""Files of a table's log that are not yet in a checkpoint, its data files that are not yet joined, and rows.

The alert remembers the newest cuts for the overview, up to a thousand.

Delta writes a checkpoint after a hundred commits, for which it opens the table once more: no table comes to that here
but that of the leases.
"""
LEASES_OPENED, LEASES_LOG = 13, 12
"""Openings of the leases in a step, one of them for a checkpoint, and files of its log that one of them reads."""
FRESH = 6
"""Landings of a pipeline that is new: with fewer, steps do not yet all that they do later."""

Steps = Mapping[str, Work]


@dataclass(frozen=True)
class Aged:
    """What was measured of a pipeline when it was new, and after more landings; by `idle` and `cycle`, and by step."""

    new: Mapping[str, Steps]
    old: Mapping[str, Steps]
    landings: int
    """How many more."""


@pytest.fixture(scope="session")
def aged_by(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Aged]:
    """Return what runs a pipeline for so many landings, each a cycle, with an idle cycle before it; once for each.

    A fixture with the number as its parameter would run it anew whenever tests of another number come between.
    """

    @cache
    def run(landings: int) -> Aged:
        with pytest.MonkeyPatch.context() as monkeypatch:
            shop = TinyShop(tmp_path_factory.mktemp("shop"), monkeypatch)
            try:
                shop.cycle()
                rounds = [{"idle": shop.idle(), "cycle": shop.cycle()} for _ in range(1, landings)]
            finally:
                shop.close()
        return Aged(rounds[FRESH - 2], rounds[-1], landings - FRESH)

    return run


@pytest.fixture(params=[9, pytest.param(33, marks=pytest.mark.long)], ids=lambda n: f"{n} landings")
def aged(request: pytest.FixtureRequest, aged_by: Callable[[int], Aged]) -> Aged:
    return aged_by(request.param)


def amounts(work: Work) -> dict[str, Counter[str]]:
    """Return what STEPS has of a step, by column; each by table."""
    opened = {"tables": work.opened, **{kind: work.of_kind(kind) for kind in ("log", "data")}}
    files = {kind: without_leases(counts) for kind, counts in opened.items()}
    return {**files, "queries": work.queries, "rows": work.rows, "JVMs": Counter({"sessions": work.jvms})}


def without_leases(counts: Counter[str]) -> Counter[str]:
    """Return counts without those of the leases, whose log is joined every few commits, in one step or another."""
    return Counter({table: count for table, count in counts.items() if table != names.LEASES})


def growing(steps: Steps) -> Counter[tuple[str, str]]:
    """Return what may grow, by table and kind, in all steps of a cycle together."""
    total = Counter[tuple[str, str]]()
    for work in steps.values():
        for kind in ("log", "data", "rows"):
            total.update({(table, kind): count for table, count in amounts(work)[kind].items()})
    return total


def bounds_of_steps() -> dict[tuple[str, str], list[int]]:
    return {(when, step): [int(cell) for cell in numbers] for when, step, *numbers in lines(STEPS)}


def bounds_of_commits() -> dict[tuple[str, str], int]:
    return {(step, table): int(count) for step, table, count in lines(COMMITS)}


def lines(text: str) -> list[list[str]]:
    """Return the cells of a table's lines, without its head."""
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()[1:]]


def job_of(step: str) -> str:
    """Return the job of a task: all expectations have the same.

    >>> job_of("check_expectations.totals"), job_of("publish")
    ('check_expectations', 'publish')
    """
    return step.partition(".")[0]


def by_table(counts: Counter[str]) -> str:
    """Return counts as a failing test prints them.

    >>> by_table(Counter(ledger=2, cuts=1))
    'cuts 1, ledger 2'
    """
    return ", ".join(f"{table} {count}" for table, count in sorted(counts.items()))


def measured(aged: Aged) -> str:
    """Return all measured numbers as STEPS and COMMITS have them."""
    numbers, commits = list[str](), dict[str, None]()
    for when, steps in aged.new.items():
        for step, work in steps.items():
            cells = " | ".join(f"{counts.total():>7}" for counts in amounts(work).values())
            numbers.append(f"{when:<5} | {step:<27} | {cells}")
            for table, count in sorted(work.commits.items()):
                commits[f"{job_of(step):<19} | {table:<20} | {count}"] = None
    return "\n".join([*numbers, "", *commits])


def grown(aged: Aged) -> str:
    """Return what grew for each landing, as GROWS has it."""
    more = {when: growing(aged.old[when]) - growing(aged.new[when]) for when in aged.old}
    about = sorted(set().union(*more.values()))
    each = {name: [f"{more[when][name] / aged.landings:>5.3g}" for when in ("idle", "cycle")] for name in about}
    return "\n".join(f"{table:<20} | {kind:<4} | {' | '.join(cells)}" for (table, kind), cells in each.items())


def test_a_step_does_no_more_than_it_needs(aged: Aged) -> None:
    bounds, over = bounds_of_steps(), list[str]()
    for when, steps in aged.new.items():
        for step, work in steps.items():
            for (name, counts), most in zip(amounts(work).items(), bounds[when, step], strict=True):
                if counts.total() > most:
                    over.append(f"{when}, {step}: {name} {counts.total()}, at most {most} ({by_table(counts)})")
    assert not over, "\n".join([*over, "", "measured:", measured(aged)])


def test_a_lease_is_looked_up_in_a_short_log(aged: Aged) -> None:
    for work in (*aged.new["cycle"].values(), *aged.old["cycle"].values()):
        opened = work.opened[names.LEASES]
        assert opened <= LEASES_OPENED
        assert work.of_kind("log")[names.LEASES] <= opened * LEASES_LOG


def test_a_step_commits_no_more_than_it_needs(aged: Aged) -> None:
    bounds, over = bounds_of_commits(), list[str]()
    for when, steps in aged.new.items():
        for step, work in steps.items():
            for table, count in work.commits.items():
                most = bounds.get((job_of(step), table), 0)
                if count > most:
                    over.append(f"{when}, {step}: commits to {table} {count}, at most {most}")
    assert not over, "\n".join([*over, "", "measured:", measured(aged)])


@pytest.mark.parametrize("name", ["tables", "queries", "JVMs", "commits"])
def test_no_step_does_more_for_each_landing(aged: Aged, name: str) -> None:
    over = list[str]()
    for when, steps in aged.old.items():
        for step, work in steps.items():
            new = aged.new[when][step]
            before = new.commits if name == "commits" else amounts(new)[name]
            after = work.commits if name == "commits" else amounts(work)[name]
            if more := after - before:
                over.append(f"{when}, {step}: {name}, {aged.landings} landings later more of {by_table(more)}")
    assert not over, "\n".join(over)


def test_nothing_grows_with_landings_but_what_is_known_to(aged: Aged) -> None:
    known = {(table, kind): {"idle": idle, "cycle": cycle} for table, kind, idle, cycle in lines(GROWS)}
    over = list[str]()
    for when in aged.new:
        before, after = growing(aged.new[when]), growing(aged.old[when])
        for name in after:
            allowed = float(known.get(name, {}).get(when, 0)) * aged.landings
            if after[name] > before[name] + allowed:
                over.append(f"{when}, {' '.join(name)}: {before[name]}, {aged.landings} landings later {after[name]}")
    assert not over, "\n".join([*over, "", "more for each landing:", grown(aged)])
