"""What is generated, read by naive readers of each format, is what the source says that it holds."""

from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from generate.replay import READERS, State, final, states, truth
from generate.running import LAYOUTS, generated, json_lines
from oracle.comparison import differences, report
from oracle.declarations import TABLES
from oracle.values import typed_state
from txloom.generate.truth import state_as_of

EVERYTHING = ("--share-of", "deletes=0.15,key-changes=0.15,truncates=0.003,empty=0.03")
FORMATS = pytest.mark.parametrize(("name", "layout"), LAYOUTS)


@FORMATS
def test_a_naive_replay_ends_where_the_source_does(name: str, layout: str, tmp_path: Path) -> None:
    flags = ("--format", name, "--layout", layout, "--transactions", 400, "--files", 3, "--large", 700)
    folder = generated(tmp_path, *flags, *EVERYTHING)
    replayed = final(READERS[name](folder))
    true_state = truth(folder / "_source" / "final")
    assert not differences(true_state, replayed), report(differences(true_state, replayed))
    assert len(true_state["orders"]) > 200 and len(true_state["order_line_items"]) > 1000 and true_state["promo_codes"]


@FORMATS
def test_a_state_as_of_a_csn_is_what_a_replay_up_to_it_gives(name: str, layout: str, tmp_path: Path) -> None:
    flags = ("--format", name, "--layout", layout, "--transactions", 120, "--states")
    folder = generated(tmp_path, *flags, *EVERYTHING)
    csns = sorted({version["csn"] for version in json_lines(folder / "_source" / "versions.jsonl")})
    versions = READERS[name](folder)
    for csn in csns[:: len(csns) // 7]:
        replayed = final([each for each in versions if each[0] <= csn])
        true_state = typed_state({name: {} for name in TABLES} | state_as_of(folder / "_source", csn))  # type: ignore[arg-type]
        assert not differences(true_state, replayed), (csn, report(differences(true_state, replayed)))


def test_states_as_of_csns_are_written_as_the_final_one_is(tmp_path: Path) -> None:
    folder = generated(tmp_path, "--format", "goldengate", "--transactions", 60, "--states")
    csns = [csn for csn, _ in READERS["goldengate"](folder)]
    generated(folder, "--append", "--transactions", 0, "--as-of", csns[30], csns[-1])
    assert truth(folder / "_source" / "as_of" / str(csns[-1])) == truth(folder / "_source" / "final")
    replayed = final(READERS["goldengate"](folder)[:31])
    assert truth(folder / "_source" / "as_of" / str(csns[30])) == replayed


def test_every_transaction_leaves_sound_totals_and_no_orphans(tmp_path: Path) -> None:
    folder = generated(tmp_path, "--format", "goldengate", "--transactions", 500, *EVERYTHING)
    for csn, state in states(READERS["goldengate"](folder)):
        assert broken(state) == [], csn


def broken(state: State) -> list[str]:
    """Name orders whose total is not the sum of their lines, and rows whose parent is not there."""
    sums = dict.fromkeys([key[0] for key in state["orders"]], Decimal(0))
    by_clause = []
    for line in state["order_line_items"].values():
        if line["order_id"] not in sums:
            by_clause.append(f"orphan line {line['line_item_id']}")
        else:
            sums[str(line["order_id"])] += Decimal(line["item_amount"] or 0)
    for name in ("order_details", "order_attachments", "promo_uses"):
        by_clause += [f"orphan of {name}" for row in state[name].values() if row["order_id"] not in sums]
    by_clause += [
        "use of no code" for row in state["promo_uses"].values() if (row["code"],) not in state["promo_codes"]
    ]
    wrong = [key for (key,), row in state["orders"].items() if Decimal(row["total_amount"] or "") != sums[key]]
    return by_clause + [f"total of {key}" for key in wrong]


def test_csns_rise_and_xids_do_not(tmp_path: Path) -> None:
    folder = generated(tmp_path, "--format", "goldengate", "--transactions", 200)
    metadata = json_lines(folder / "dev.transaction_metadata_json" / "00000000.jsonl")
    csns = [int(each["csn"]) for each in metadata]
    assert csns == sorted(set(csns))
    xids = [int(each["xid"].rpartition(".")[2]) for each in metadata]
    assert len(set(xids)) == len(xids) and sum(b < a for a, b in pairwise(xids)) > 50


@pytest.mark.parametrize("seed", range(25))
def test_any_seed_keeps_what_must_hold(seed: int, tmp_path: Path) -> None:
    shares = f"deletes={seed % 5 / 10},key-changes={seed % 3 / 10},truncates={seed % 2 / 20}"
    sizes = ("1", "1-4", "2-30", "60", "1:5,100:1")[seed % 5]
    flags = ("--seed", seed, "--transactions", 60, "--share-of", shares, "--rows-per-transaction", sizes)
    folder = generated(tmp_path, "--format", "goldengate", *flags)
    versions = READERS["goldengate"](folder)
    assert [csn for csn, state in states(versions) if broken(state)] == []
    assert final(versions) == truth(folder / "_source" / "final")
