"""How much work each step of a cycle does, in numbers that no machine changes: STEPS and GROWS are its bounds.

A change that makes a step do more turns this red, whether or not a clock would show it: a table that is opened once
more, a query more, rows that are read into Python, a second commit where one did, a JVM. Where a step has to do more,
or now does less, write the new numbers into the table: a failing test prints it as it is.

What grows with the number of landings is measured twice, after FRESH landings and after many more: STEPS are the
numbers after FRESH, and GROWS says what may be more for each landing since. What GROWS does not name must not grow.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from steps.counted.tiny_shop import TinyShop
from steps.counted.work import Work

STEPS = """
"""
GROWS = """
"""
FRESH = 5
"""Landings of a pipeline that is new: fewer, and some steps have not yet all to do that they have later."""
NUMBERS = ("tables", "log", "data", "queries", "rows", "JVMs")


@dataclass(frozen=True)
class Aged:
    """What was measured of a pipeline when it was new, and after more landings; by `idle` and `cycle`, and by step."""

    new: Mapping[str, Mapping[str, Work]]
    old: Mapping[str, Mapping[str, Work]]
    landings: int
    """How many more."""


@pytest.fixture(scope="module", params=[9, pytest.param(58, marks=pytest.mark.long)], ids=lambda n: f"{n} landings")
def aged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aged]:
    """Run a pipeline for so many landings, each a cycle, with an idle cycle before it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        shop = TinyShop(tmp_path_factory.mktemp("shop"), monkeypatch)
        shop.cycle()
        rounds = [{"idle": shop.idle(), "cycle": shop.cycle()} for _ in range(1, request.param)]
        yield Aged(rounds[FRESH - 2], rounds[-1], request.param - FRESH)
        shop.close()


def numbers(work: Work) -> dict[str, int]:
    """Return what STEPS has of a step, by column."""
    files = {kind: work.of_kind(kind) for kind in ("log", "data")}
    return {"tables": work.opened.total(), **files, "queries": work.queries, "rows": work.rows, "JVMs": work.jvms}


def commits(text: str) -> Counter[str]:
    """Return commits by table, of how STEPS writes them.

    >>> commits("leases 2, ledger")
    Counter({'leases': 2, 'ledger': 1})
    """
    by_table = Counter[str]()
    for each in text.split(", ") if text else []:
        table, _, count = each.partition(" ")
        by_table[table] = int(count or 1)
    return by_table


def written(work: Mapping[str, Mapping[str, Work]]) -> str:
    """Return measured work as STEPS writes it."""
    lines = []
    for cycle, steps in work.items():
        for step, done in steps.items():
            made = ", ".join(f"{table} {count}" if count > 1 else table for table, count in sorted(done.commits.items()))
            cells = (f"{number:>7}" for number in numbers(done).values())
            lines.append(f"{cycle:<5} | {step:<27} | {' | '.join(cells)} | {made}")
    return "\n".join(lines)


def grown(aged: Aged) -> str:
    """Return what grew, as GROWS writes it."""
    more = {cycle: growing(aged.old[cycle]) - growing(aged.new[cycle]) for cycle in aged.old}
    names = sorted(set().union(*more.values()))
    each = {name: [f"{more[cycle][name] / aged.landings:>5.3g}" for cycle in ("idle", "cycle")] for name in names}
    return "\n".join(f"{table:<20} | {kind:<4} | {' | '.join(cells)}" for (table, kind), cells in each.items())


def growing(steps: Mapping[str, Work]) -> Counter[tuple[str, str]]:
    """Return what may grow: files that the steps of a cycle read, by table and kind, and rows, by step."""
    amounts = Counter[tuple[str, str]]()
    for step, work in steps.items():
        amounts.update({about: count for about, count in work.files.items() if about[1] != "other"})
        amounts[step, "rows"] = work.rows
    return amounts


def lines(text: str) -> list[list[str]]:
    """Return the cells of a table's lines, without its head."""
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()[1:]]


def test_a_step_does_no_more_than_it_needs(aged: Aged) -> None:
    bounds = {(cycle, step): (cells[:-1], commits(cells[-1])) for cycle, step, *cells in lines(STEPS)}
    for cycle, steps in aged.new.items():
        for step, work in steps.items():
            most, committed = bounds[cycle, step]
            over = {name: n for (name, n), bound in zip(numbers(work).items(), most, strict=True) if n > int(bound)}
            assert not over and work.commits <= committed, f"{cycle}, {step}: {over}\n{written(aged.new)}"


def test_what_does_not_grow_with_landings_stays_as_it_is(aged: Aged) -> None:
    for cycle, steps in aged.old.items():
        for step, work in steps.items():
            new = aged.new[cycle][step]
            same = (work.opened.total(), work.queries, work.jvms, work.commits)
            assert same == (new.opened.total(), new.queries, new.jvms, new.commits), f"{cycle}, {step}"


def test_nothing_grows_with_landings_but_what_is_known_to(aged: Aged) -> None:
    known = {(name, kind): {"idle": idle, "cycle": cycle} for name, kind, idle, cycle in lines(GROWS)}
    over = list[str]()
    for cycle in aged.new:
        before, after = growing(aged.new[cycle]), growing(aged.old[cycle])
        for name in after:
            allowed = float(known.get(name, {}).get(cycle, 0)) * aged.landings
            if after[name] > before[name] + allowed:
                over.append(f"{cycle}, {' '.join(name)}: {before[name]}, {aged.landings} landings later {after[name]}")
    assert not over, "\n".join([*over, "", "more for each landing:", grown(aged)])
