"""Repairs between any changes: streamed, lost, or made in the lake alone, before and after the audits.

Whatever order they come in, a repair deletes no row that the source has, and writes no value that it does not have; and
audits with repairs end with a lake that equals the source.
"""

import json
import os
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from called import step_of
from steps.audit.test_audit import SLOT, Shop, shop
from txloom.errors import ConfigurationError
from txloom.steps.audit.differing_rows import Chosen
from txloom.steps.audit.repair import repair
from txloom.steps.audit.undo_repair import undo_repair
from txloom.steps.landing.internal_transaction import REPAIR

__all__ = ["shop"]
SEEDS = range(int(os.environ.get("TXLOOM_REPAIRS", "1")))
ALL = 10**6
Rows = dict[int, Decimal]


def source_rows(shop: Shop) -> Rows:
    return dict(shop.sql("SELECT line, qty FROM lines"))


def lake_rows(shop: Shop) -> Rows:
    return {row["line"]: row["qty"] for row in shop.rows("lines")}


def change_source(shop: Shop, chance: Random) -> set[int]:
    """Commit a transaction of one to three statements; return the keys of rows that these may change."""
    statements, keys = [], set[int]()
    for _ in range(chance.randint(1, 3)):
        key, old = chance.randint(1, 12), chance.randint(1, 12)
        keys |= {key, old}
        statements.append(
            chance.choice(
                [
                    f"INSERT INTO lines VALUES ('Läge', {key}, {chance.randint(1, 5)}) ON CONFLICT DO NOTHING",
                    f"UPDATE lines SET qty = {chance.randint(1, 5)} WHERE line = {key}",
                    f"DELETE FROM lines WHERE line = {key}",
                    f"UPDATE lines SET line = {key} WHERE line = {old} AND"
                    f" NOT EXISTS (SELECT 1 FROM lines WHERE line = {key})",
                ]
            )
        )
    shop.sql("; ".join(statements))
    return keys


def change_lake(shop: Shop, chance: Random) -> None:
    """Change a row of the lake, or take it away, as nobody should."""
    lines, key = DeltaTable(shop.path("lines")), chance.randint(1, 12)
    if chance.random() < 0.5:
        lines.delete(f"line = {key}")
    else:
        lines.update(predicate=f"line = {key}", updates={"qty": "99"})


def repair_now(shop: Shop, run_id: str) -> dict[str, Any]:
    """Repair, and compare what was landed with what the source has."""
    there = source_rows(shop)
    try:
        counts = dict(repair(step_of(shop.pipeline, shop.warehouse, run_id), Chosen(tables=["lines"]), ALL))
    except ConfigurationError:
        return {"rows": 0}
    if "landing" in counts:
        landed = f"kind = 'row' and starts_with(xid, '{REPAIR}') and landing >= {counts['landing']}"
        for row in shop.query("change_events", f"select op, value from t where {landed}"):
            message = json.loads(row["value"])
            if row["op"] == "D":
                assert message["before"]["line"] not in map(str, there), (message, there)
            else:
                after = message["after"]
                assert there.get(int(after["line"])) == Decimal(after["qty"]), (message, there)
    return counts


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_repairs_among_any_changes_delete_no_row_of_the_source_and_end_equal(shop: Shop, seed: int) -> None:
    chance = Random(seed)
    shop.sql("DELETE FROM lines")
    shop.sql("INSERT INTO lines SELECT 'Läge', n, n FROM generate_series(1, 8) n")
    shop.caught_up()
    for turn in range(24):
        match chance.choice(["stream", "stream", "lose", "lake", "audit", "repair", "repair", "deliver"]):
            case "stream":
                change_source(shop, chance)
            case "lose":
                change_source(shop, chance)
                shop.sql(SLOT)
            case "lake":
                change_lake(shop, chance)
            case "audit":
                shop.audit_live(wait=20, tables=["lines"])
            case "repair":
                repair_now(shop, f"among-{turn}")
            case "deliver":
                shop.deliver_changes()
    for last in range(5):
        shop.caught_up()
        if shop.audit_live(wait=30, tables=["lines"])["differing"] == 0:
            break
        repair_now(shop, f"last-{last}")
    assert lake_rows(shop) == source_rows(shop)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_repair_that_is_undone_leaves_the_rows_as_they_were_but_for_those_that_changed_since(
    shop: Shop, seed: int
) -> None:
    chance = Random(seed)
    shop.sql("DELETE FROM lines")
    shop.sql("INSERT INTO lines SELECT 'Läge', n, n FROM generate_series(1, 8) n")
    for _ in range(4):
        change_source(shop, chance)
    shop.caught_up()
    before = lake_rows(shop)
    for _ in range(3):
        change_source(shop, chance)
        shop.sql(SLOT)
    shop.audit_live(wait=30, tables=["lines"])
    repaired = repair_now(shop, "repaired")
    shop.caught_up()
    assert lake_rows(shop) == source_rows(shop)
    touched = set[int]()
    for _ in range(chance.randint(0, 2)):
        touched |= change_source(shop, chance)
    shop.caught_up()
    since = lake_rows(shop)
    if repaired["rows"]:
        undo_repair(step_of(shop.pipeline, shop.warehouse, "undone"), "repaired")
    shop.caught_up()
    undone = lake_rows(shop)
    for key in before.keys() | since.keys() | undone.keys():
        if key in touched:
            assert undone.get(key) in (since.get(key), before.get(key)), key
        elif repaired["rows"]:
            assert undone.get(key) == before.get(key), key
