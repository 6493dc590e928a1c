"""What years of cycles (`aged_past`) left in the tables of runs: plans, positions, cuts, the ledger, results."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data.aged_past import (
    BLOCK,
    BLOCKS,
    DEAD,
    KEPT_DEAD,
    LANDINGS,
    NEW,
    PER,
    POISON,
    Block,
    Ints,
    Past,
    instants,
    joined,
    maps,
    of_schema,
    release_of,
    sorted_by,
    zero_filled,
)
from benchmarks.data.aged_rows import CAUSE
from txloom.storage.dead_letters.open_letters import REDRIVE
from txloom.storage.system_tables import (
    CUTS,
    EXPECTATION_RESULTS,
    FILE_POSITIONS,
    GAP,
    LANDED_FILES,
    LEDGER,
)
from txloom.transactions import events as ev


def landed_files(block: Block) -> pa.Table:
    """Return the plans of the landings of a block."""
    landings = np.repeat(block.landings, 2)
    topics = pa.array(["metadata", "rows"]).take(pa.array(np.tile([0, 1], BLOCK - 1)))
    at = block.past.at(landings)
    columns = {
        "landing": landings,
        "run_id": runs(at),
        "at": instants(at),
        "file_number": np.tile([1, 2], BLOCK - 1),
        "topic": topics,
        "file": joined(topics, "/", zero_filled(landings), ".jsonl"),
        "size": 3_000 + landings % 1_000,
        "modified": (at - 1_000_000) * 1_000,
        "start": 0,
    }
    rows = of_schema(LANDED_FILES, len(landings), columns)
    redrive = {"landing": np.array([block.redrive]), "topic": REDRIVE}
    at = block.past.at(redrive["landing"])
    redrive |= {"run_id": runs(at), "at": instants(at)}
    return pa.concat_tables([rows, of_schema(LANDED_FILES, 1, redrive)])


def file_positions(block: Block) -> pa.Table:
    """Return how far the files of the landings of a block were read."""
    landings = np.repeat(block.landings, 2)
    topics = pa.array(["metadata", "rows"]).take(pa.array(np.tile([0, 1], BLOCK - 1)))
    chance = np.random.default_rng(block.number)
    digests = [pa.array([chance.bytes(16).hex() for _ in range(len(landings))]) for _ in range(2)]
    columns = {
        "landing": landings,
        "at": instants(block.past.at(landings)),
        "topic": topics,
        "file": joined(topics, "/", zero_filled(landings), ".jsonl"),
        "size": 3_000 + landings % 1_000,
        "modified": (block.past.at(landings) - 1_000_000) * 1_000,
        "start": 0,
        "until": 3_000 + landings % 1_000,
        "tail": 0,
        "lines": PER,
        "digest": digests[0],
        "head": digests[1],
        "begins_inside": False,
        "read_again": False,
        "is_access": False,
    }
    return of_schema(FILE_POSITIONS, len(landings), columns)


def cuts(block: Block) -> pa.Table:
    """Return the cut of each cycle of a block, without what a redrive amends."""
    landings = np.append(block.landings, block.redrive)
    at, size = block.past.at(landings), BLOCK
    through = np.append(block.csn[PER - 1 :: PER], block.csn[-1])
    names = list(block.past.table_ids)
    marks = joined('{"valid_through": ', pa.array(through), ', "release": ', pa.array(release_of(landings)), "}")
    offsets = pa.array(np.arange(size + 1, dtype=np.int32) * len(names))
    keys = pa.array(names * size)
    every = max(BLOCKS // KEPT_DEAD, 1)
    dead = [number * NEW + 1 for number in range(0, block.number + 1, every)]
    gaps = [{"xid": f"7.{csn % 101}.{csn}", "csn": csn, "cause": CAUSE} for csn in dead]
    columns = {
        "cut_id": landings,
        "run_id": runs(at),
        "valid_through": through,
        "release": release_of(landings),
        "committed_at": instants(at - 1_000_000),
        "published_at": instants(at + 60_000_000),
        "versions": maps(names, *[landings] * len(names)),
        "table_ids": pa.MapArray.from_arrays(offsets, keys, pa.array(list(block.past.table_ids.values()) * size)),
        "marks": pa.MapArray.from_arrays(offsets, keys, marks.take(pa.array(np.repeat(np.arange(size), len(names))))),
        "gaps": pa.repeat(pa.scalar(gaps, pa.list_(GAP)), size),
        "amends": pa.repeat(pa.scalar([], CUTS.field("amends").type), size),
    }
    return of_schema(CUTS, size, columns)


def runs(at: Ints) -> Any:
    """Return the ids of the scheduled runs at some times."""
    return joined("scheduled__", pc.strftime(instants(at), "%Y-%m-%dT%H:%M:%S+00:00"))


@dataclass(frozen=True)
class Counts:
    """What each landing counted; one element for each."""

    rows: Ints
    poison: Ints
    dead: Ints

    @classmethod
    def of_all(cls) -> "Counts":
        """Return the counts of all landings."""
        landings = np.arange(LANDINGS) % BLOCK
        places = np.arange(NEW)
        dead = np.append(np.bincount(places[(places % 22 == 0) & (places < 22 * DEAD)] // PER, minlength=BLOCK - 1), 0)
        numbers = np.arange(BLOCKS)
        redriven = DEAD - (numbers % max(BLOCKS // KEPT_DEAD, 1) == 0)
        rows = np.full(LANDINGS, PER, np.int64)
        rows[BLOCK - 1 :: BLOCK] = redriven
        poison = np.where(landings < POISON, 1, 0).astype(np.int64)
        return cls(rows, poison, np.tile(dead, BLOCKS).astype(np.int64))

    def landed(self) -> dict[str, Ints]:
        """Return what land_events enters in the ledger."""
        none = np.zeros(len(self.rows), np.int64)
        landed = 2 * self.rows + self.poison
        files = np.where(np.arange(len(self.rows)) % BLOCK == BLOCK - 1, 0, 2)
        counts = {"files": files, "landed": landed, "rows": self.rows, "metadata": self.rows}
        return counts | {"unwatched": none, "poison": self.poison, "tombstones": none, "markers": none}

    def buffered(self) -> dict[str, Ints]:
        """Return what buffer_transactions enters in the ledger."""
        none = np.zeros(len(self.rows), np.int64)
        counts = {"rows": self.rows, "metadata": self.rows, "duplicates": none, "repeated_metadata": none}
        counts |= {"released": self.rows - self.dead, "transactions": self.rows, "suspects": none, "dead": self.dead}
        return counts | {"dead_transactions": none, "buffered": none, "buffered_change": none}

    def balance(self) -> dict[str, Ints]:
        """Return the balances: sums of all landings up to each."""
        none = np.zeros(len(self.rows), np.int64)
        sides = {"landed": 2 * self.rows + self.poison, "released": self.rows - self.dead, "buffered": none}
        sides |= {"dead": self.dead + self.poison, "duplicates": none, "unwatched": none, "metadata": self.rows}
        return {name: np.cumsum(each) for name, each in (sides | {"tombstones": none, "markers": none}).items()}


STEPS = ("land_events", "buffer_transactions", "balance", "merge_current", "publish")


def ledger(past: Past, first: int, until: int) -> pa.Table:
    """Return the ledger's rows of some cycles, which are those of landings; five for each."""
    landings, counts = np.arange(first, until + 1, dtype=np.int64), Counts.of_all()
    size, at, release = len(landings), past.at(landings), release_of(landings)
    through = valid_through(landings)
    none = np.zeros(size, np.int64)
    merged = {"merged": none + 3, "changes": counts.rows[landings - 1], "release": release, "findings": none}
    entered: dict[str, dict[str, Ints]] = {name: {} for name in STEPS}
    for name, all_counts in (("land_events", counts.landed()), ("buffer_transactions", counts.buffered())):
        entered[name] = {count: each[landings - 1] for count, each in all_counts.items()}
    entered["balance"] = {count: each[landings - 1] for count, each in counts.balance().items()}
    entered |= {"merge_current": merged, "publish": {"cut_id": landings}}
    parts = []
    for number, (step, of_step) in enumerate(entered.items()):
        columns = {
            "run_id": runs(at),
            "step": step,
            "at": instants(at + number * 10_000_000),
            "entered": (landings - 1) * len(STEPS) + number + 1,
        }
        columns["counts"] = maps(list(of_step), *of_step.values())
        columns["generation"] = int(step in ("buffer_transactions", "balance"))
        columns["batch"] = landings if number < 2 else 0
        columns |= {"valid_through": through} if number > 2 else {"balanced": True} if step == "balance" else {}
        parts.append(of_schema(LEDGER, size, columns))
    return sorted_by(pa.concat_tables(parts), "entered")


def carried(past: Past, until: int) -> pa.Table:
    """Return the ledger's rows that stand for those of landings up to one, which expire has removed."""
    counts, at = Counts.of_all(), past.at(np.array([until]))[0]
    rows = []
    for number, (step, all_counts) in enumerate(zip(STEPS, (counts.landed(), counts.buffered()), strict=False)):
        sums = [np.array([each[:until].sum()]) for each in all_counts.values()]
        columns = {
            "run_id": "carried forward",
            "step": step,
            "generation": number,
            "batch": until,
            "at": instants([at]),
        }
        columns |= {"counts": maps(list(all_counts), *sums), "entered": (until - 1) * len(STEPS) + number + 1}
        rows.append(of_schema(LEDGER, 1, columns))
    return pa.concat_tables(rows)


def valid_through(landings: Ints) -> Ints:
    """Return the csn up to which everything was finished after each landing."""
    block, place = (landings - 1) // BLOCK, (landings - 1) % BLOCK
    through: Ints = block * NEW + np.minimum(place + 1, BLOCK - 1) * PER
    return through


def results(past: Past, first: int, until: int) -> pa.Table:
    """Return the results of the expectation `few` in some cycles."""
    landings = np.arange(first, until + 1, dtype=np.int64)
    at = past.at(landings)
    columns = {"run_id": runs(at), "expectation": "few", "kind": "dead_letters", "severity": "warn", "success": True}
    columns |= {"checked": 2 * KEPT_DEAD, "failed": 0, "sample": "[]", "sentence": "Few.", "hint": "Look."}
    columns |= {"checked_at": instants(at + 50_000_000), "last_good": instants(at + 50_000_000), "streak": 0}
    columns["versions"] = maps(["dead_letters", "transactions"], landings, landings)
    return of_schema(EXPECTATION_RESULTS, len(landings), columns)


def clock_numbers(landing: int) -> bytes:
    """Return the `numbers` of a clock row."""
    return ev.to_bytes(np.concatenate([ev.unreadable_ranges(landing, ()), ev.decided(landing, landing - 1)]))
