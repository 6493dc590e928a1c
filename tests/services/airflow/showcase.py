"""Pipelines that fare in every way that the page shows: sound, failing, empty, huge, hostile, and for few eyes only.

`orders` and `shop` went through the steps; the tables of the others are written as the steps write them, with numbers
that tests know.
"""

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from called import step_of
from lake import Lake, arrivals
from shop import Shop, insert, update
from txloom.config import load
from txloom.config.project import PROJECT
from txloom.steps.publish.validate import validate
from txloom.storage import system_tables
from txloom.storage.delta import small_tables
from txloom.storage.paths import TablePaths
from txloom.transactions import completeness

WRITTEN = ("failing", "empty", "huge", "private")
STUCK, HUGE = 25, 10_000
"""Transactions that wait in `failing` and in `huge`."""
ORPHANS, SHOWN_ORPHANS = 37, 3
LETTERS = {completeness.SHORT: 12, completeness.NO_METADATA: 3}
"""Open dead letters of `failing` by cause; each transaction has three."""
SCRIPT = "<script>document.title='stolen'</script><img src=x onerror=alert(1)>"
HIDDEN = "a\u202egnp.exe"
QUOTES = "O'Brien \"the\" =cmd|' /C calc'!A0"
SHOP = """
tables:
- {name: items, source: APP.ITEMS, key: [id], columns: {id: long, name: string, notes: string}}
- {name: parts, source: APP.PARTS, key: [id, part], columns: {id: long, part: string, amount: "decimal(10,2)"}}
targets: {mirrors: ["*"]}
expectations:
- {kind: great_expectation, id: plain_notes, table: items, expectation: ExpectColumnValuesToMatchRegex,
   arguments: {column: notes, regex: "^[a-z]*$"}, severity: info, sentence: "<i>Notes</i> are words.", hint: Ask.}
"""


def showcase(spark: Any, folder: Path) -> tuple[Path, Path]:
    """Make all of them and return the folder of their declarations, and the warehouse."""
    pipelines, warehouse = folder / "pipelines", folder / "warehouse"
    pipelines.mkdir(parents=True)
    shipped = (PROJECT / "include" / "pipelines" / "orders.yaml").read_text()
    inbox = folder / "inbox"
    shipped = shipped.replace("${TXLOOM_INBOX:-include/sample/inbox}", str(inbox))
    for name in ("orders", *WRITTEN):
        (pipelines / f"{name}.yaml").write_text(shipped.replace("name: orders   ", f"name: {name}   ", 1))
    # Tests look at what is sound for as long as the whole suite takes.
    patient = shipped.replace("valid_through_age: 30m", "valid_through_age: 24h")
    (pipelines / "orders.yaml").write_text(patient)
    sound(spark, folder, pipelines / "orders.yaml")
    hostile(spark, folder, pipelines, warehouse)
    failing(TablePaths(str(warehouse), "failing"))
    huge(TablePaths(str(warehouse), "huge"))
    private(TablePaths(str(warehouse), "private"))
    return pipelines, warehouse


def sound(spark: Any, folder: Path, declaration: Path) -> None:
    """Run the whole sample: nothing waits, everything is published."""
    (folder / "inbox").mkdir()
    lake = Lake(spark, folder, load(declaration))
    lake.deliver(*arrivals())
    lake.run()
    write(
        TablePaths(lake.warehouse, "orders"),
        "expectation_results",
        [passed(each) for each in lake.pipeline.expectations],
    )


def hostile(spark: Any, folder: Path, pipelines: Path, warehouse: Path) -> None:
    """Send rows whose values are markup, formulas, quotes and signs that nobody sees."""
    (folder / "shop").mkdir()
    shop = Shop(spark, folder / "shop", SHOP)
    shop.commit(1, insert("items", id=1, name=QUOTES, notes="plain"), insert("parts", id=1, part="a'b", amount="1.50"))
    shop.commit(2, update("items", {"id": 1, "name": QUOTES, "notes": "plain"}, id=1, name=HIDDEN, notes=SCRIPT))
    shop.send(*shop.rows_of(3, insert("items", id=2, name=SCRIPT, notes=SCRIPT)))
    shop.run()
    validate(step_of(shop.pipeline, shop.warehouse, "upkeep <1>"))
    shutil.copytree(Path(shop.path("cuts")).parent, warehouse / "shop")
    shutil.copy(shop.folder / "shop.yaml", pipelines / "shop.yaml")


def ago(**span: float) -> datetime:
    """Return a moment in the past."""
    return datetime.now(UTC) - timedelta(**span)


def write(paths: TablePaths, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Append rows to a table."""
    small_tables.append(paths.table(table), rows, getattr(system_tables, table.upper()))


def waiting(count: int) -> list[dict[str, Any]]:
    """Return transactions that wait, each a minute longer than the one before, in turn for metadata and for a row."""
    rows = []
    for number in range(count):
        is_odd = number % 2 == 1
        rows.append(
            {
                "transaction_id": f"{9000 + number}:{500 + number}",
                "xid": str(9000 + number),
                "csn": 500 + number,
                "committed_at": ago(minutes=30 + number),
                "first_landed_at": ago(minutes=15 + number),
                "age_seconds": 60 * (15 + number),
                "expected": {"orders": 1, "order_line_items": 4} if is_odd else None,
                "received": {"orders": 1, "order_line_items": 3} if is_odd else {"orders": 1},
                "cause": completeness.SHORT if is_odd else completeness.NO_METADATA,
                "as_of": ago(minutes=2),
            }
        )
    return rows


def cut(number: int, **columns: Any) -> dict[str, Any]:
    """Return a published cut."""
    versions = {"orders": number, "orders_current": number, "order_line_items": number}
    moments = {"committed_at": ago(hours=5 - number), "published_at": ago(hours=4.5 - number)}
    row = {"cut_id": number, "run_id": f"scheduled {number}", "valid_through": 100 * number, "release": number}
    return {**row, **moments, "versions": versions, "gaps": [], "amends": [], **columns}


def ledger(number: int, **columns: Any) -> list[dict[str, Any]]:
    """Return what a run entered in the ledger."""
    counts = {
        "land_events": {"landed": 120 * number, "files": 4},
        "buffer_transactions": {"released": 100 * number, "dead": 5 * (number // 4), "duplicates": 2},
        "balance": {"landed": 120 * number, "released": 100 * number},
        "merge_current": {"changes": 100 * number, "release": number},
        "publish": {"cut_id": number},
    }
    run = {"run_id": f"scheduled {number}", "generation": 1, "batch": number, "valid_through": 100 * number}
    return [
        {
            **run,
            "step": step,
            "at": ago(hours=4.6 - number, seconds=9 - position),
            "counts": counted,
            "balanced": balanced,
        }
        for position, (step, counted) in enumerate(counts.items())
        for balanced in [True if step == "balance" else None]
    ] + ([{**run, **columns}] if columns else [])


def failing(paths: TablePaths) -> None:
    """Let everything be wrong at once."""
    gaps = [{"xid": "8999", "csn": 399, "cause": "metadata never came"}]
    write(paths, "cuts", [cut(1), cut(2), cut(3), cut(4, gaps=gaps, amends=[{"cut_id": 2, "xid": "77", "csn": 150}])])
    detail = "landed 480 = released 400 + buffered 70 + dead 5: 5 are unaccounted for"
    wrong = {"step": "balance", "at": ago(minutes=20), "counts": {"landed": 480}, "balanced": False, "detail": detail}
    write(paths, "ledger", [row for n in range(1, 5) for row in ledger(n, **(wrong if n == 4 else {}))])
    write(paths, "pending_transactions", waiting(STUCK))
    write(paths, "dead_letters", [row for cause, number in LETTERS.items() for row in letters(cause, number)])
    settled = {"landing": 9, "row": 1, "cause": "broken JSON", "person": "ada", "run_id": "r9", "at": ago(minutes=7)}
    write(paths, "dismissals", [settled | {"reason": f"sent again {SCRIPT}"}])
    write(paths, "expectation_results", results())
    write(paths, "findings", findings())
    write(paths, "leases", [lease()])
    write(paths, "incidents", [incident("stuck transactions", 40, None), incident("dead letters", 300, ago(hours=2))])


def letters(cause: str, count: int) -> list[dict[str, Any]]:
    """Return the dead letters of a cause."""
    first = 700 if cause == completeness.NO_METADATA else 800
    return [
        {
            "transaction_id": f"{first + number // 3}:{first + number // 3}",
            "xid": str(first + number // 3),
            "csn": first + number // 3,
            "pos": number,
            "kind": "row",
            "table": "order_line_items",
            "op": "I",
            "cause": cause,
            "detail": "ORDER_LINE_ITEMS 3/4",
            "topic": "dev.order_line_items_json",
            "file": "dev.order_line_items_json/0007.jsonl",
            "line": number + 1,
            "value": '{"secret": "of a row"}',
            "landed_at": ago(hours=3),
            "dead_at": ago(hours=2, minutes=number),
        }
        for number in range(count)
    ]


def results() -> list[dict[str, Any]]:
    """Return the checks of three runs: line items lost their orders after the first."""
    sample = [
        {"line_item_id": 11, "order_id": 4711, "remark": SCRIPT},
        {"line_item_id": 12, "order_id": 4712, "remark": HIDDEN},
        {"line_item_id": 13, "order_id": 4713, "remark": None},
    ]
    result_columns = {
        "orphan_line_items": ("orphans", "block", "Every line item belongs to an order.", "Look up the order_id."),
        "stuck_transactions": ("stuck_transactions", "warn", "No transaction waits for long.", "Look at the producer."),
    }
    rows = []
    for number, hours in enumerate((3, 2, 1), 1):
        for name, (kind, severity, sentence, hint) in result_columns.items():
            failed = (ORPHANS if number > 1 else 0) if kind == "orphans" else 0
            outcome = {"success": not failed, "failed": failed, "sample": json.dumps(sample if failed else [])}
            row = {"run_id": f"scheduled {number}", "expectation": name, "kind": kind, "severity": severity, **outcome}
            row |= {"sentence": sentence, "hint": hint, "checked": 5000, "checked_at": ago(hours=hours)}
            rows.append(row | {"versions": {"order_line_items": number}})
    return rows


def passed(expectation: Any) -> dict[str, Any]:
    """Return a good check of an expectation."""
    row = {"run_id": "run-1", "expectation": expectation.id, "kind": expectation.kind, "severity": expectation.severity}
    row |= {"success": True, "checked": 5000, "failed": 0, "sample": "[]", "checked_at": ago(minutes=1)}
    return {**row, "sentence": expectation.sentence, "hint": expectation.hint, "versions": {"orders": 1}}


def findings() -> list[dict[str, Any]]:
    """Return two findings, one of them an error."""
    shared = {"status": "open", "run_id": "scheduled 4", "at": ago(minutes=50), "xid": "881", "since_csn": 350}
    lost = {"code": "changed type", "severity": "error", "table": "orders", "column": "total_amount"}
    lost |= {"evidence": "total_amount of order 4711 is 1.5E3, declared is decimal(20,4)", "needs_snapshot": True}
    late = {"code": "late metadata", "severity": "warn", "table": None, "column": None, "needs_snapshot": False}
    late |= {"evidence": "metadata came 12 minutes after the rows", "hint": "Raise patience, or look at the exporter."}
    return [shared | lost | {"hint": "Declare the type, then load the table anew."}, shared | late]


def lease() -> dict[str, Any]:
    """Return who holds the pipeline."""
    return {
        "epoch": 7,
        "run_id": "scheduled 5",
        "step": "merge_current",
        "host": "worker-2",
        "pid": 4242,
        "began": "1",
    } | {
        "acquired_at": ago(minutes=4),
        "released_at": None,
    }


def incident(kind: str, minutes: int, over: datetime | None) -> dict[str, Any]:
    """Return something that people were told of."""
    moments = {"opened_at": ago(minutes=minutes), "since": ago(minutes=minutes + 5), "closed_at": over}
    incident_columns = {
        "kind": kind,
        "subject": "",
        "severity": "warn",
        "what": f"Told: {kind}.",
        "todo": "Look.",
        "total": 3,
    }
    return {**incident_columns, **moments, "rows": ["one"], "page": "dags/failing_cdc", "is_over": over is not None}


def huge(paths: TablePaths) -> None:
    """Let 10,000 transactions wait."""
    write(paths, "cuts", [cut(number) for number in range(1, 5)])
    write(paths, "ledger", [row for number in range(1, 5) for row in ledger(number)])
    write(paths, "pending_transactions", waiting(HUGE))


def private(paths: TablePaths) -> None:
    """Write something that not everybody may see."""
    write(paths, "cuts", [cut(1)])
