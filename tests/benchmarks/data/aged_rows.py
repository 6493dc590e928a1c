"""The events, transactions, changes and dead letters that years of cycles (`aged_past`) left behind."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data.aged_past import (
    BLOCK,
    LANDINGS,
    MESSAGE_CYCLES,
    NEW,
    ORDERS,
    PER,
    POISON,
    POOL,
    Block,
    Ints,
    instants,
    joined,
    maps,
    of_schema,
    release_of,
    sorted_by,
    zero_filled,
)
from txloom.storage.system_tables import (
    CHANGE_EVENTS,
    DEAD_LETTERS,
    DISMISSALS,
    TRANSACTIONS,
)

CAUSE = "value cannot be read"


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
