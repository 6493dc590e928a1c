"""How long the read model takes: on tables of a million events and transactions, and over many pipelines.

    python tests/benchmarks/bench_views.py --out FOLDER [--pipelines 65] [--rows 1000000]

Makes a warehouse with `deltalake` in FOLDER unless one is there, as the pipeline's own steps would have written it:
events in files of 50,000, ordered by transaction within each; 10,000 stuck transactions; 100,000 dead letters. Prints
milliseconds of each answer: cold (as a new process's first), the processors' time of that, and warm.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from txloom.config import load, names
from txloom.config.models.pipeline import Pipeline
from txloom.storage import system_tables
from txloom.storage.delta import read_session, small_tables
from txloom.storage.landing import landing_tables
from txloom.storage.paths import TablePaths
from txloom.storage.targets import history_tables, schemas
from txloom.storage.views.pipeline import cuts, dead_letters, problems, runs
from txloom.storage.views.pipeline.lag_series import series
from txloom.storage.views.pipeline.overview import health, overview
from txloom.storage.views.pipeline.waiting import waiting
from txloom.storage.views.stories.row import key_story
from txloom.storage.views.stories.transaction import TransactionName, transaction
from txloom.transactions.hashes import hash64

DECLARED = """
name: {name}
source: {{format: goldengate, files: {{path: inbox}}, transaction_topic: metadata}}
completeness: {{rule: counts, patience: 30m}}
tables:
- {{name: orders, source: A.ORDERS, key: [id], columns: {{id: long, status: string, amount: "decimal(20,4)"}}}}
- {{name: lines, source: A.LINES, key: [id], columns: {{id: long, order_id: long, text: string}}}}
targets:
  mirrors: [orders]
  aggregates:
  - {{name: whole, root: orders, children: [{{table: lines, as: lines, relation: many, parent_key: [order_id]}}]}}
expectations:
- {{kind: stuck_transactions, id: stuck, older_than: 10m, severity: warn, sentence: Nothing waits long., hint: Look.}}
alerts: {{valid_through_age: 30m, source_quiet: 2h, stuck_after: 10m, dead_letters: 0}}
"""
LANDING, STUCK, DEAD, RUNS = 50_000, 10_000, 100_000, 3_000
NOW = datetime.now(UTC)
TOPICS = ("rows.orders", "rows.lines")


def declared(folder: Path, name: str) -> Pipeline:
    file = folder / f"{name}.yaml"
    file.write_text(DECLARED.format(name=name))
    return load(file)


def make(pipeline: Pipeline, paths: TablePaths, rows: int) -> None:
    """Write the tables of a pipeline that has landed so many events."""
    landing_tables.create_tables(paths)
    history_tables.create(pipeline, paths)
    chance = random.Random(1)
    for number in range(rows // LANDING):
        write_deltalake(paths.change_events, events(number + 1, chance), mode="append")
    for start in range(0, rows, 100_000):
        write_deltalake(paths.table(names.TRANSACTIONS), transactions(start, min(100_000, rows - start)), mode="append")
        write_deltalake(
            paths.table("orders_changes"), changes(pipeline, start, min(100_000, rows - start)), mode="append"
        )
        write_deltalake(
            paths.table("whole_stream"), documents(pipeline, start, min(100_000, rows - start)), mode="append"
        )
    pending = pa.Table.from_pylist([stuck(rows + n) for n in range(STUCK)], system_tables.PENDING_TRANSACTIONS)
    about = {"release": rows // LANDING, "landing": rows // LANDING}
    small_tables.replace(
        paths.table(names.PENDING_TRANSACTIONS),
        pending.to_pylist(maps_as_pydicts="strict"),
        system_tables.PENDING_TRANSACTIONS,
        about,
    )
    write_deltalake(
        paths.dead_letters,
        pa.Table.from_pylist([letter(n) for n in range(DEAD)], system_tables.DEAD_LETTERS),
        mode="append",
    )
    ledger = [line for n in range(RUNS) for line in entries(n)]
    write_deltalake(paths.table(names.LEDGER), pa.Table.from_pylist(ledger, system_tables.LEDGER))
    published = [cut(n, rows) for n in range(RUNS)]
    write_deltalake(paths.table(names.CUTS), pa.Table.from_pylist(published, system_tables.CUTS))


def identity(number: int) -> str:
    return f"x{number}:{number}"


def events(number: int, chance: random.Random) -> pa.Table:
    """Return a landing: transactions of ten events each, ordered by hash as large files are."""
    rows = []
    for line in range(LANDING):
        transaction_number = (number - 1) * LANDING // 10 + line // 10
        name = identity(transaction_number)
        about = {"landing": number, "row": (1 << 32) + line, "kind": "row" if line % 10 else "metadata"}
        about |= {"topic": TOPICS[line % 2], "file": f"rows/{number}.jsonl", "line": line, "landed_at": at(number * 20)}
        about |= {
            "transaction_id": name,
            "tx": hash64(name),
            "xid": f"x{transaction_number}",
            "csn": transaction_number,
        }
        about |= {
            "pos": line,
            "table": ("orders", "lines")[line % 2],
            "op": "U",
            "identity": str(line),
            "payload": line,
        }
        about |= {"value": f'{{"id": {line}, "filler": "{chance.getrandbits(256):x}"}}'}
        rows.append(about)
    table = pa.Table.from_pylist(rows, system_tables.CHANGE_EVENTS)
    return table.sort_by("tx")


def at(minutes: float) -> datetime:
    return NOW - timedelta(days=30) + timedelta(minutes=minutes)


def transactions(start: int, count: int) -> pa.Table:
    rows = [
        {"transaction_id": identity(n), "xid": f"x{n}", "csn": n, "committed_at": at(n / 100), "status": "released",
         "rows": 9, "first_landed_at": at(n / 100), "finished_at": at(n / 100), "release": 1 + n // LANDING}
        for n in range(start, start + count)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, system_tables.TRANSACTIONS)


def changes(pipeline: Pipeline, start: int, count: int) -> pa.Table:
    rows = [
        {"id": n % 250_000, "status": f"s{n % 7}", "amount": None, "_txloom_op": "U", "_txloom_xid": f"x{n}",
         "_txloom_csn": n, "_txloom_pos": n, "_txloom_committed_at": at(n / 100), "_txloom_release": 1 + n // LANDING,
         "_txloom_landing": 1, "_txloom_row": n, "_txloom_before": {"id": n % 250_000}, "_txloom_before_known": ["id"]}
        for n in range(start, start + count)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schemas.changes_schema(pipeline.table("orders")))


def documents(pipeline: Pipeline, start: int, count: int) -> pa.Table:
    rows = [
        {"id": n % 250_000, "_txloom_xid": f"x{n}", "_txloom_csn": n, "_txloom_committed_at": at(n / 100),
         "_txloom_release": 1 + n // LANDING, "orders": [],
         "lines": [{"_txloom_pos": n, "_txloom_op": "I", "id": n, "order_id": n % 250_000, "text": f"t{n}"}]}
        for n in range(start, start + count)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schemas.stream_schema(pipeline, pipeline.targets.aggregates[0]))


def stuck(number: int) -> dict[str, Any]:
    return {
        "transaction_id": identity(number), "xid": f"x{number}", "csn": number, "first_landed_at": at(number % 1000),
        "age_seconds": 60_000 - number % 1000 * 60, "expected": {"orders": 1, "lines": 3}, "received": {"lines": 2},
        "cause": ("table short", "metadata never came")[number % 2], "as_of": NOW,
    }  # fmt: skip


def letter(number: int) -> dict[str, Any]:
    return {
        "transaction_id": f"d{number // 4}:{number // 4}", "xid": f"d{number // 4}", "csn": number // 4, "kind": "row",
        "table": "lines", "cause": f"cause {number % 12}", "file": "rows/1.jsonl", "line": number, "landing": 1,
        "row": number, "topic": "rows.lines", "landed_at": NOW, "dead_at": NOW, "release": 1, "value": "v" * 200,
    }  # fmt: skip


def entries(number: int) -> Iterator[dict[str, Any]]:
    counts = {"land_events": {"landed": 700}, "buffer_transactions": {"released": 600}, "balance": {"landed": 700},
              "merge_current": {"release": number, "changes": 600}, "publish": {"cut_id": number}}  # fmt: skip
    for step, counted in counts.items():
        row = {"run_id": f"scheduled__{number}", "step": step, "at": at(number * 14.4), "counts": list(counted.items())}
        yield row | {"batch": number, "generation": 1, "valid_through": number, "balanced": step == "balance" or None}


def cut(number: int, rows: int) -> dict[str, Any]:
    about = {
        "cut_id": number,
        "run_id": f"scheduled__{number}",
        "valid_through": rows * number // RUNS,
        "release": number,
    }
    gaps = [{"xid": f"d{n}", "csn": n, "cause": "excess"} for n in range(100)] if number > RUNS - 50 else []
    moments = {"committed_at": at(number * 14.4 - 5), "published_at": at(number * 14.4)}
    return about | moments | {"versions": [("orders", number)], "gaps": gaps, "amends": []}


def timed_calls(pipeline: Pipeline, warehouse: str, rows: int) -> dict[str, Callable[[], Any]]:
    """Return what a page asks, by name."""
    one = {
        "health": health, "expectations": problems.expectations, "waiting": waiting, "runs": runs.runs,
        "letter causes": dead_letters.causes, "letters": dead_letters.dead_letters, "cuts": cuts.cuts,
        "series of a day": series,
    }  # fmt: skip
    calls: dict[str, Callable[[], Any]] = {
        name: lambda each=each: each(pipeline, warehouse) for name, each in one.items()
    }
    calls |= {
        "waiting, page 40, one cause": lambda: waiting(pipeline, warehouse, number=40, cause="table short"),
        "letters, page 900": lambda: dead_letters.dead_letters(pipeline, warehouse, number=900),
        "series of 30 days": lambda: series(pipeline, warehouse, span=timedelta(days=30)),
        "transaction by xid": lambda: transaction(pipeline, warehouse, TransactionName(xid=f"x{rows // 20}")),
        "transaction by csn": lambda: transaction(pipeline, warehouse, TransactionName(csn=rows // 25)),
        "transaction by id": lambda: transaction(
            pipeline, warehouse, TransactionName(transaction_id=identity(rows // 30))
        ),
        "transaction that waits": lambda: transaction(pipeline, warehouse, TransactionName(csn=rows + 77)),
        "transaction nobody knows": lambda: transaction(pipeline, warehouse, TransactionName(xid="nobody")),
        "key of a mirror": lambda: key_story(pipeline, warehouse, "orders", {"id": "4711"}),
        "key of a child in documents": lambda: key_story(pipeline, warehouse, "lines", {"id": "4711"}),
        "document": lambda: key_story(pipeline, warehouse, "whole_current", {"id": "4711"}),
    }
    return calls


def milliseconds(ask: Callable[[], Any]) -> tuple[float, float]:
    """Return how long it took by the clock, and how long processors worked: other work lengthens that less."""
    begun, worked = time.perf_counter(), time.process_time()
    ask()
    return (time.perf_counter() - begun) * 1_000, (time.process_time() - worked) * 1_000


def forget() -> None:
    """Let the next answer be as cold as a new process's."""
    read_session._TABLES.clear()
    read_session._ANSWERS.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pipelines", type=int, default=65)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    warehouse = str(given.out / "lake")
    large = declared(given.out, "large")
    if not DeltaTable.is_deltatable(TablePaths(warehouse, "large").table(names.CUTS)):
        make(large, TablePaths(warehouse, "large"), given.rows)
    small = [declared(given.out, f"small_{n}") for n in range(given.pipelines)]
    for each in small:
        paths = TablePaths(warehouse, each.name)
        if not DeltaTable.is_deltatable(paths.table(names.CUTS)):
            for line in [line for n in range(3) for line in entries(RUNS - n)]:
                small_tables.append(paths.table(names.LEDGER), [line], system_tables.LEDGER)
            landing_tables.create_tables(paths)
            history_tables.create(each, paths)
            small_tables.replace(
                paths.table(names.PENDING_TRANSACTIONS),
                [stuck(1)],
                system_tables.PENDING_TRANSACTIONS,
                {"release": 1, "landing": RUNS},
            )
            small_tables.append(paths.table(names.CUTS), [cut(RUNS, 1)], system_tables.CUTS)
    print(f"{'milliseconds':32} {'cold':>8} {'cpu':>8} {'warm':>8}")
    everything = timed_calls(large, warehouse, given.rows)
    everything[f"overview of {len(small)} pipelines"] = lambda: overview(small, warehouse)
    for name, ask in everything.items():
        forget()
        cold, worked = milliseconds(ask)
        warm = min(milliseconds(ask)[0] for _ in range(3))
        print(f"{name:32} {cold:8.0f} {worked:8.0f} {warm:8.0f}", flush=True)


if __name__ == "__main__":
    main()
