"""The rows that years of cycles left in each table of a pipeline of `data.goldengate`, block by block of landings.

Each landing brings PER transactions, each a metadata message and an update of an order; the last landing of a block is
a redrive of DEAD transactions of the block, which were given up because of a value and have been repaired since. The
first POISON landings of a block also bring a line that cannot be read and was dismissed. The first transactions of
KEPT_DEAD blocks are dead for good: open dead letters, and gaps of all cuts that follow.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from txloom.storage.dead_letters.open_letters import REDRIVE
from txloom.storage.system_tables import (
    CHANGE_EVENTS,
    CUTS,
    DEAD_LETTERS,
    DISMISSALS,
    EXPECTATION_RESULTS,
    FILE_POSITIONS,
    GAP,
    INSTANT,
    LANDED_FILES,
    LEDGER,
    TRANSACTIONS,
)
from txloom.transactions import events as ev
from txloom.transactions.hashes import hashed

Ints = npt.NDArray[np.int64]
Columns = Mapping[str, Any]

SCALE = float(os.environ.get("TXLOOM_BENCH_AGE", "1"))
"""Of all counts below: 0.01 makes tables of a hundredth of their rows."""
BLOCK, PER = 500, 16
BLOCKS = max(round(1000 * SCALE), 2)
LANDINGS = BLOCKS * BLOCK
NEW = (BLOCK - 1) * PER
"""Transactions of a block: 7,984,000 in all at full size."""
DEAD, POISON, KEPT_DEAD = 350, 300, 5
"""Of each block; two dead letters for each dead transaction and one for each line that cannot be read: 1,000,000."""
DAY = 288
"""Cycles of a day: one every five minutes."""
APART = timedelta(minutes=5)
LEDGER_CYCLES = max(round(400 * DAY * SCALE), 10)
"""Cycles whose rows the ledger and the results of expectations still have: of 400 days."""
MESSAGE_CYCLES = LOG_CYCLES = max(round(30 * DAY * SCALE), 10)
"""Cycles whose messages are kept, and cycles whose commits the tables' logs have: of 30 days."""
TODAY = max(round(DAY / 2 * SCALE), 3)
"""Cycles since the last OPTIMIZE, each with small files of its own: of half a day."""
ORDERS = 20_000
FIRST_RELEASE = 500_000_000
"""Releases of old landings lie below those of the first checkpoint, with which the real cycles begin."""
CAUSE = "value cannot be read"
POOL = 4_000


def release_of(landing: Any) -> Any:
    """Return the number of the release that took a landing."""
    return FIRST_RELEASE + landing


@dataclass(frozen=True)
class Past:
    """The years before a moment.

    Args:
        until: the time of the last landing.
        compact: packed compact events of buckets, which the landings' rows of kind `numbers` take in turn.
        clocks: the same of clock rows.
        table_ids: by current table, Delta's id.
    """

    until: datetime
    compact: "pa.Array[Any]"
    clocks: "pa.Array[Any]"
    table_ids: Mapping[str, str]

    def at(self, landings: Ints) -> Ints:
        """Return the times of landings, in microseconds since 1970."""
        apart = int(APART.total_seconds()) * 1_000_000
        times: Ints = int(self.until.timestamp() * 1_000_000) - (LANDINGS - landings) * apart
        return times

    def block(self, number: int) -> "Block":
        """Return a block of landings."""
        return Block(self, number)


@dataclass(frozen=True)
class Block:
    """The landings `number * BLOCK + 1` to `(number + 1) * BLOCK`."""

    past: Past
    number: int

    @property
    def first(self) -> int:
        """Return the first landing."""
        return self.number * BLOCK + 1

    @property
    def redrive(self) -> int:
        """Return the last landing, which lands dead transactions once more."""
        return self.first + BLOCK - 1

    @cached_property
    def landings(self) -> Ints:
        """Return all landings but the redrive."""
        return np.arange(self.first, self.redrive, dtype=np.int64)

    @cached_property
    def csn(self) -> Ints:
        """Return the csn of each new transaction, which counts them from 1."""
        return self.number * NEW + np.arange(1, NEW + 1, dtype=np.int64)

    @cached_property
    def landing(self) -> Ints:
        """Return the landing of each new transaction."""
        return np.repeat(self.landings, PER)

    @cached_property
    def dead(self) -> npt.NDArray[np.bool_]:
        """Return which new transactions were given up at first."""
        places = np.arange(NEW)
        return (places % 22 == 0) & (places < 22 * DEAD)

    @cached_property
    def redriven(self) -> Ints:
        """Return the places of those that were redriven: all dead ones, but for some blocks the first one."""
        places: Ints = np.flatnonzero(self.dead)
        kept = self.number % max(BLOCKS // KEPT_DEAD, 1) == 0
        return places[1:] if kept else places

    @cached_property
    def xid(self) -> "pa.StringArray":
        """Return the ids of the transactions, as `goldengate.xid_of` does."""
        csn = pa.array(self.csn)
        return joined("7.", pa.array(self.csn % 101), ".", csn)

    @cached_property
    def transaction_id(self) -> "pa.StringArray":
        """Return the ids under which transactions are known."""
        return joined(self.xid, ":", pa.array(self.csn))

    @cached_property
    def tx(self) -> "pa.Array[Any]":
        """Return the hashes of the transactions' ids."""
        return hashed(self.transaction_id)

    @cached_property
    def committed(self) -> "pa.Array[Any]":
        """Return when the source committed the transactions: a second before they were landed."""
        return instants(self.past.at(self.landing) - 1_000_000)

    def names(self, topic: str) -> "pa.StringArray":
        """Return the file of each transaction's message in a topic."""
        return joined(f"{topic}/", zero_filled(self.landing), ".jsonl")


def joined(*parts: Any) -> Any:
    """Join texts and numbers, row by row."""
    texts = [each if isinstance(each, str) else each.cast(pa.string()) for each in parts]
    return pc.binary_join_element_wise(*texts, "")


def zero_filled(numbers: Ints) -> Any:
    """Return numbers as text of seven digits."""
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 7, "0")


def instants(micros: Any) -> "pa.Array[Any]":
    """Return times."""
    return pa.array(micros, pa.int64()).cast(INSTANT)


def maps(keys: list[str], *values: Ints) -> "pa.Array[Any]":
    """Return a map for each row, with the same keys; values: those of each key."""
    size = len(values[0])
    items = np.stack(values, axis=1).reshape(-1)
    names = pa.array(keys).take(pa.array(np.tile(np.arange(len(keys)), size)))
    offsets = pa.array(np.arange(size + 1, dtype=np.int32) * len(keys))
    return pa.MapArray.from_arrays(offsets, names, pa.array(items))


def of_schema(schema: pa.Schema, size: int, columns: Columns) -> pa.Table:
    """Return rows in a schema; a value that is no array is that of each row, and columns without a value are null."""
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if value is None:
            value = pa.nulls(size, field.type)
        elif not isinstance(value, pa.Array | pa.ChunkedArray | np.ndarray):
            value = pa.repeat(pa.scalar(value, field.type), size)
        array = pa.array(value) if isinstance(value, np.ndarray) else value
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.table(arrays, schema=schema)


def sorted_by(rows: pa.Table, column: str) -> pa.Table:
    """Return rows ordered by a column of integers; of equal ones the order stays."""
    return rows.take(pa.array(np.argsort(rows.column(column).to_numpy(), kind="stable")))


def messages(block: Block, places: Ints, kind: str) -> Any:
    """Return the messages of transactions of a block, as the source sent them."""
    csn, xid = pa.array(block.csn[places]), block.xid.take(pa.array(places))
    names = ('", "csn": "', csn, '", "xid": "', xid)
    if kind == "metadata":
        counts = '", "event_count": 1, "data_collections": [{"data_collection": "ORDERS", "event_count": 1}]}'
        return joined('{"tx_ts": "2026-01-01 00:00:00.000000', *names, counts)
    begin = '{"table": "B.ORDERS", "op_type": "U", "op_ts": "2026-01-01 00:00:00.000000", "pos": "'
    order = pa.array(block.csn[places] % ORDERS)
    status = pa.array(block.csn[places] % 7)
    image = ('", "before": {"ID": ', order, '}, "after": {"ID": ', order, ', "STATUS": "s', status, '", "AMOUNT": "')
    return joined(begin, pa.array(block.csn[places] * 1_000_000), *names, *image, csn, '.5000"}}')


def _event(block: Block, places: Ints, kind: str) -> dict[str, Any]:
    """Return the columns that an event has in change_events, and a dead letter too."""
    chosen, line = pa.array(places), places % PER + 1
    file = 1 if kind == "metadata" else 2
    columns: dict[str, Any] = {
        "landing": block.landing[places],
        "row": (file << 32) + line,
        "kind": kind,
        "topic": "metadata" if kind == "metadata" else "rows",
        "file": block.names("metadata" if kind == "metadata" else "rows").take(chosen),
        "line": line,
        "landed_at": instants(block.past.at(block.landing[places])),
        "transaction_id": block.transaction_id.take(chosen),
        "xid": block.xid.take(chosen),
        "csn": block.csn[places],
    }
    if kind == "row":
        columns |= {"pos": block.csn[places] * 1_000_000, "source_table": "B.ORDERS", "table": "orders", "op": "U"}
    return columns


def _poison(block: Block) -> dict[str, Any]:
    landings = block.landings[:POISON]
    return {
        "landing": landings,
        "row": np.full(POISON, (2 << 32) + PER + 1),
        "kind": "poison",
        "topic": "rows",
        "file": joined("rows/", zero_filled(landings), ".jsonl"),
        "line": np.full(POISON, PER + 1),
        "landed_at": instants(block.past.at(landings)),
        "cause": "broken JSON",
        "detail": "JSON is malformed: object keys must be strings (byte 1)",
        "value": "{bad",
    }


def change_events(block: Block) -> pa.Table:
    """Return what the landings of a block wrote; messages that are older than MESSAGE_CYCLES are forgotten."""
    every, parts = np.arange(NEW), list[pa.Table]()
    parts += [_landed(block, every, kind) for kind in ("metadata", "row")]
    parts.append(of_schema(CHANGE_EVENTS, POISON, _poison(block)))
    again = [_landed(block, block.redriven, kind) for kind in ("metadata", "row")]
    for number, events in enumerate(again):
        size, rows = events.num_rows, events
        places = {"landing": np.full(size, block.redrive), "row": number * size + np.arange(1, size + 1)}
        places["landed_at"] = instants(np.full(size, block.past.at(np.array([block.redrive]))[0]))
        for name, value in places.items():
            column = pa.array(value).cast(CHANGE_EVENTS.field(name).type)
            rows = rows.set_column(rows.schema.get_field_index(name), CHANGE_EVENTS.field(name), column)
        parts.append(rows)
    landings = np.append(block.landings, block.redrive)
    buckets = np.tile(np.arange(8, dtype=np.int64), BLOCK)
    packed = {"landing": np.repeat(landings, 8), "row": np.full(8 * BLOCK, -2), "kind": "numbers", "bucket": buckets}
    packed["numbers"] = block.past.compact.take(pa.array((np.arange(8 * BLOCK) + 8 * block.first) % POOL))
    parts.append(of_schema(CHANGE_EVENTS, 8 * BLOCK, packed))
    clock = {"landing": landings, "row": np.full(BLOCK, -1), "kind": "clock"}
    clock |= {
        "landed_at": instants(block.past.at(landings)),
        "numbers": block.past.clocks.take(pa.array(landings % POOL)),
    }
    parts.append(of_schema(CHANGE_EVENTS, BLOCK, clock))
    return sorted_by(pa.concat_tables(parts), "landing")


def _landed(block: Block, places: Ints, kind: str) -> pa.Table:
    columns, size = _event(block, places, kind), len(places)
    columns |= {"tx": block.tx.take(pa.array(places)), "committed_at": block.committed.take(pa.array(places))}
    if kind == "metadata":
        columns |= {"expected": maps(["orders"], np.ones(size, np.int64)), "event_count": 1}
    else:
        chance = np.random.default_rng(block.number)
        digests = pa.py_buffer(chance.bytes(16 * size))
        offsets = pa.py_buffer((np.arange(size + 1, dtype=np.int32) * 16).tobytes())
        columns |= {"identity": pa.array(columns["pos"]).cast(pa.string())}
        columns |= {"payload": chance.integers(0, 1 << 62, size)}
        columns |= {"digest": pa.Array.from_buffers(pa.binary(), size, [None, offsets, digests])}
    kept = (block.landing[places] > LANDINGS - MESSAGE_CYCLES) | _dead_for_good(block, places)
    if kept.any():
        columns["value"] = pc.if_else(pa.array(kept), messages(block, places, kind), None)
    return of_schema(CHANGE_EVENTS, size, columns)


def _dead_for_good(block: Block, places: Ints) -> npt.NDArray[np.bool_]:
    return block.dead[places] & ~np.isin(places, block.redriven)


def transactions(block: Block) -> pa.Table:
    """Return the transactions that were finished in the landings of a block."""
    every = np.arange(NEW)
    again = np.full(len(block.redriven), block.redrive)
    parts = [(every[~block.dead], None, None), (every[block.dead], CAUSE, None), (block.redriven, None, again)]
    rows = []
    for places, cause, landing in parts:
        chosen, finished = pa.array(places), block.landing[places] if landing is None else landing
        columns = {
            "transaction_id": block.transaction_id.take(chosen),
            "xid": block.xid.take(chosen),
            "csn": block.csn[places],
            "committed_at": block.committed.take(chosen),
            "status": "released" if cause is None else "dead",
            "cause": cause,
            "rows": 1,
            "first_landed_at": instants(block.past.at(finished)),
            "finished_at": instants(block.past.at(finished)),
            "release": release_of(finished),
        }
        rows.append(of_schema(TRANSACTIONS, len(places), columns))
    return sorted_by(pa.concat_tables(rows), "release")


def changes(block: Block, schema: pa.Schema) -> pa.Table:
    """Return the changes of orders that were released in the landings of a block; schema: of the history."""
    every, rows = np.arange(NEW), []
    for places, again in ((every[~block.dead], False), (block.redriven, True)):
        csn, size = block.csn[places], len(places)
        landing = np.full(size, block.redrive) if again else block.landing[places]
        columns = orders_as_of(csn) | {
            "_txloom_op": "U",
            "_txloom_xid": block.xid.take(pa.array(places)),
            "_txloom_csn": csn,
            "_txloom_pos": csn * 1_000_000,
            "_txloom_committed_at": block.committed.take(pa.array(places)),
            "_txloom_release": release_of(landing),
            "_txloom_landing": landing,
            "_txloom_row": (np.arange(size) + size + 1) if again else (2 << 32) + places % PER + 1,
            "_txloom_before": _only_key(csn % ORDERS, schema.field("_txloom_before").type),
            "_txloom_before_known": pa.repeat(pa.scalar(["id"]), size),
        }
        rows.append(of_schema(schema, size, columns))
    return sorted_by(pa.concat_tables(rows), "_txloom_release")


def orders_as_of(csn: Ints) -> dict[str, Any]:
    """Return the columns of orders, as the transactions with some csns left them."""
    amounts = pc.multiply(pa.array(csn).cast(pa.decimal128(19, 0)), pa.scalar(1, pa.decimal128(1, 0)))
    return {"id": csn % ORDERS, "status": joined("s", pa.array(csn % 7)), "amount": amounts.cast(pa.decimal128(20, 0))}


def _only_key(ids: Ints, kind: pa.StructType) -> "pa.Array[Any]":
    fields = [pa.array(ids) if each.name == "id" else pa.nulls(len(ids), each.type) for each in kind]
    return pa.StructArray.from_arrays(fields, fields=list(kind))


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


def dead_letters(block: Block) -> pa.Table:
    """Return the dead letters of the landings of a block."""
    places, parts = np.flatnonzero(block.dead), list[pa.Table]()
    for kind in ("metadata", "row"):
        landing = block.landing[places]
        columns = _event(block, places, kind) | {"cause": CAUSE, "detail": "amount: 'x' is not a decimal(20,4)"}
        columns |= {"value": messages(block, places, kind), "release": release_of(landing)}
        columns |= {"dead_at": instants(block.past.at(landing))}
        parts.append(of_schema(DEAD_LETTERS, len(places), columns))
    poison = _poison(block)
    parts.append(of_schema(DEAD_LETTERS, POISON, poison | {"dead_at": poison["landed_at"]}))
    return sorted_by(pa.concat_tables(parts), "landing")


def dismissals(block: Block) -> pa.Table:
    """Return the dismissals of the lines of a block that could not be read."""
    poison, at = _poison(block), block.past.at(np.array([block.redrive]))
    columns = {name: poison[name] for name in ("landing", "row", "cause")}
    columns |= {"person": "ann", "reason": "a test of the producer", "at": instants(np.repeat(at, POISON))}
    return of_schema(DISMISSALS, POISON, columns | {"run_id": f"dismiss__{block.number}"})


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
