"""Tables rebuilt from what a backfill would leave of a history are those of the source, whatever was damaged."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from steps.merge.keyed import KEYS, LIKELY, Keyed, Odds, workload
from steps.merge.small_pieces import cut_small, note_folders
from txloom.config import names
from txloom.steps.backfill import rebuild
from txloom.steps.backfill.compare import compare_shadows
from txloom.steps.backfill.released_events import OUTCOMES
from txloom.steps.backfill.scope import HIGHEST, Scope, Target
from txloom.steps.step import no_session
from txloom.storage.delta import arrow_tables
from txloom.storage.targets import shadow_tables

SIZES = st.sampled_from((200, 2_000, 10_000_000))
ODDS = st.builds(Odds, late=LIKELY, truncate=LIKELY, drop=LIKELY, orphan=LIKELY)


def scope_of(lake: Keyed, first: int = 0, last: int = HIGHEST) -> Scope:
    return Scope(lake.pipeline, lake.paths, "b1", first, last, lake.releases)


def rows_of(lake: Keyed, target: Target) -> pa.Table:
    return arrow_tables.rows_of(lake.paths.table(target.name), target.schema, "true")


def rebuilt(lake: Keyed, scope: Scope) -> None:
    """Write the shadows of histories, as they are between the csns of a backfill, and all that follows from them."""
    for target in scope.histories:
        rows = arrow_tables.rows_of(lake.paths.table(target.name), target.schema, scope.range_of(target))
        shadow_tables.write(lake.paths.table(names.shadow_table(target.name)), rows)
    shadow_tables.write(lake.paths.table(names.shadow_table(names.TRANSACTIONS)), OUTCOMES.empty_table())


def damage(lake: Keyed, scope: Scope, chance: Random) -> None:
    """Take some rows out of histories that were rebuilt, and let others say something else."""
    for target in scope.histories:
        table = DeltaTable(lake.paths.table(target.name))
        table.delete(f"({scope.range_of(target)}) and _txloom_csn % {chance.randint(2, 5)} = 0")
        if "w" in target.schema.names:
            table.update({"w": "'damaged'"}, predicate=f"({scope.range_of(target)}) and v is not null")


def shown(lake: Keyed, scope: Scope, name: Any) -> dict[str, list[str]]:
    """Return the rows of all current tables of a scope, as comparable text; name: gives that of each one's table."""
    made = {}
    for target in scope.currents:
        rows = arrow_tables.rows_of(lake.paths.table(name(target.name)), target.schema, "true").to_pylist()
        for row in rows:
            if isinstance(row.get("lines"), list):
                row["lines"] = sorted(map(repr, row["lines"]))
        made[target.name] = sorted(map(repr, rows))
    return made


@dataclass(frozen=True)
class Case:
    """A workload, the csns that a backfill rebuilds, and how it is cut."""

    table: str
    seed: int
    odds: Odds
    bounds: list[int]
    size: int
    mirrored: bool


CASES = st.builds(
    Case,
    table=st.sampled_from(sorted(KEYS)),
    seed=st.integers(0, 2**32),
    odds=ODDS,
    bounds=st.tuples(st.integers(0, 130), st.integers(0, 130)).map(sorted),
    size=SIZES,
    mirrored=st.booleans(),
)


@pytest.mark.long
@settings(max_examples=examples(30), deadline=None)
@given(CASES)
def test_damaged_rows_are_replaced_by_rebuilt_ones_in_pieces_of_any_size(tmp_path_factory: Any, case: Case) -> None:
    made, chance = workload([case.table], case.seed, odds=case.odds), Random(case.seed)
    lake = Keyed(tmp_path_factory.mktemp("left"), [case.table], mirrored=case.mirrored)
    for released in made.releases:
        lake.release(released)
    lake.merge(no_session)
    scope = scope_of(lake, *case.bounds)
    rebuilt(lake, scope)
    damage(lake, scope, chance)
    with pytest.MonkeyPatch.context() as limits:
        cut_small(limits, case.size)
        rebuild._currents(no_session, scope)
    assert shown(lake, scope, names.shadow_table) == shown(lake, scope, str)


@pytest.mark.long
@settings(max_examples=examples(20), deadline=None)
@given(table=st.sampled_from(sorted(KEYS)), seed=st.integers(0, 2**32), size=SIZES)
def test_pieces_differ_in_the_rows_in_which_whole_tables_do(
    tmp_path_factory: Any, table: str, seed: int, size: int
) -> None:
    made, chance = workload([table], seed), Random(seed)
    lake = Keyed(tmp_path_factory.mktemp("compared"), [table])
    for released in made.releases:
        lake.release(released)
    lake.merge(no_session)
    scope = scope_of(lake)
    rebuilt(lake, scope)
    rebuild._currents(no_session, scope)
    assert not any(sum(each["counts"].values()) for each in compare_shadows(no_session, scope).values())
    damage(lake, scope, chance)
    for target in scope.currents:
        DeltaTable(lake.paths.table(target.name)).delete(f"_txloom_csn % {chance.randint(2, 4)} = 0")
    whole = compare_shadows(no_session, scope)
    differing = {target.name: differences(lake, target) for target in [*scope.histories, *scope.currents]}
    with pytest.MonkeyPatch.context() as limits:
        cut_small(limits, size)
        pieced = compare_shadows(no_session, scope)
    assert pieced == whole
    assert {target.name: differences(lake, target) for target in [*scope.histories, *scope.currents]} == differing


def differences(lake: Keyed, target: Target) -> list[str]:
    rows = arrow_tables.select(lake.paths.table(names.difference_table(target.name)), "select * from t")
    return sorted(map(repr, rows.drop_columns([shadow_tables.WAS]).to_pylist()))


@pytest.mark.parametrize("mirrored", [True, False])
def test_tasks_rebuild_and_compare_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirrored: bool) -> None:
    made = workload(["by_long"], 7, transactions=30, odds=Odds(late=0, truncate=0.05, drop=0.1))
    lake = Keyed(tmp_path / "lake", ["by_long"], mirrored=mirrored)
    for released in made.releases:
        lake.release(released)
    lake.merge(no_session)
    scope = scope_of(lake, 50, 200)
    rebuilt(lake, scope)
    damage(lake, scope, Random(7))
    cut_small(monkeypatch, 1_000, by_tasks=True)
    folders = note_folders(monkeypatch)
    rebuild._currents(no_session, scope)
    assert shown(lake, scope, names.shadow_table) == shown(lake, scope, str)
    if mirrored:
        counted = {name: each["counts"] for name, each in compare_shadows(no_session, scope).items()}
        assert sum(counted["by_long"].values()) == 0
        assert counted["by_long_changes"]["missing"] and counted["by_long_changes"]["different"]
    assert folders and not any(folder.exists() for folder in folders), "pieces are gone"


def test_a_rebuilt_row_that_is_not_shown_yet_replaces_the_live_one_all_the_same(tmp_path: Path) -> None:
    """It has another release: the live row is gone with it."""
    lake = Keyed(tmp_path / "lake", ["by_long"], documented=[])
    made = workload(["by_long"], 3, transactions=4, odds=Odds(late=0))
    for released in made.releases:
        lake.release(released)
    lake.merge(no_session)
    scope = scope_of(lake)
    rebuilt(lake, scope)
    (history,) = scope.histories
    shadow = lake.paths.table(names.shadow_table(history.name))
    rows = rows_of(lake, history)
    later = pc.add(rows.column("_txloom_release"), pa.scalar(100))
    place = rows.schema.get_field_index("_txloom_release")
    shadow_tables.write(shadow, rows.set_column(place, rows.schema.field(place), later))
    rebuild._currents(no_session, scope)
    assert shown(lake, scope, names.shadow_table) == {"by_long": []}
