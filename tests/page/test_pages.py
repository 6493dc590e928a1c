"""Pages rendered without a server: many pipelines, and what a source wrote."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from txloom.config import load
from txloom.config.models.source import Signals
from txloom.config.project import PROJECT
from txloom.config.stand_in import stand_in
from txloom.page import pages
from txloom.page.links import Links
from txloom.page.turns import Turn
from txloom.quality.findings import UNKNOWN_ROW, Finding
from txloom.storage import system_tables
from txloom.storage.checks import findings
from txloom.storage.delta import small_tables
from txloom.storage.landing import requested_snapshots
from txloom.storage.landing.requested_snapshots import Request
from txloom.storage.paths import TablePaths
from txloom.storage.runs import lease

SHIPPED = load(PROJECT / "include" / "pipelines" / "orders.yaml")
HOSTILE = '"><script>alert(1)</script>\u202e'


def test_sixty_five_pipelines_are_sixty_five_rows(tmp_path: Path) -> None:
    every = [SHIPPED.model_copy(update={"name": f"plant_{number:02}"}) for number in range(65)]
    text = pages.overview(every, str(tmp_path), Links(), refused={})
    assert re.findall(r'href="/txloom/dags/(\w+)_cdc"', text) == [each.name for each in every]
    assert "65 pipelines need you now" in text


def test_a_refused_declaration_is_shown_with_its_file_and_no_link(tmp_path: Path) -> None:
    text = pages.overview([], str(tmp_path), Links(), refused={HOSTILE: f"a.yaml:3: {HOSTILE}"})
    assert "a.yaml:3:" in text and "/txloom/dags/" not in text
    assert "<script>alert" not in text and "\u202e" not in text and text.count("U+202E") == 2


def test_a_refused_declaration_hides_nothing_that_its_tables_tell(tmp_path: Path) -> None:
    paths, at = TablePaths(str(tmp_path), "orders"), datetime.now(UTC) - timedelta(hours=1)
    cut = {"cut_id": 7, "run_id": "r", "valid_through": 40, "release": 1, "published_at": at, "committed_at": at}
    small_tables.append(
        paths.table("cuts"), [cut | {"versions": {"orders": 3}, "gaps": [], "amends": []}], system_tables.CUTS
    )
    step = {"run_id": "r", "step": "land_events", "at": at, "counts": {"landed": 5}}
    small_tables.append(paths.table("ledger"), [step], system_tables.LEDGER)
    why = "orders.yaml:3: found no format, expected one"
    row = pages.overview([], str(tmp_path), Links(), refused={"orders": why})
    assert 'href="/txloom/dags/orders_cdc"' in row and why in row and "csn 40" in row
    known = stand_in("orders")
    assert known is not None
    view = pages.View.of(known, str(tmp_path), Links(), why)
    text = pages.now(view, span="1d")
    assert "declaration refused" in text and why in text and "tasks that run go on" in text
    assert "csn 40" in text and re.search(r"Last cut</dt><dd><b>7</b>", text) and "land_events" in text
    assert "None is declared" not in text and "/orders_cdc/expectations" not in text
    for part in (pages.cuts(view, page=1), pages.ledger(view, page=1), pages.expectations(view, page=1)):
        assert "<title>" in part


def turn(task: str, state: str, dag: str = "orders_cdc") -> Turn:
    return Turn(dag, task, "run 5", state, datetime.now(UTC) - timedelta(minutes=2))


def test_a_task_that_begins_or_waits_for_its_turn_is_named(tmp_path: Path) -> None:
    view = pages.View.of(SHIPPED, str(tmp_path), Links())
    assert "nothing runs now" in pages.now(view, span="1d")
    begins = pages.now(view, span="1d", turns=[turn("land_events", "running")])
    assert re.search(r"<b>land_events</b> .*of orders_cdc begins.*does not hold the lease", begins)
    assert "nothing runs now" not in begins and "to end, one task at a time" not in begins
    waiting = [turn("publish", "scheduled"), turn("optimize", "running", "orders_maintenance")]
    text = pages.now(view, span="1d", turns=waiting)
    assert re.search(r"Waiting for optimize of orders_maintenance to end, .*: <b>publish</b> of orders_cdc", text)
    assert "to end, one task at a time" not in pages.now(view, span="1d", turns=[turn("publish", "scheduled")])


def test_a_holder_of_the_lease_that_shows_no_sign_of_life_is_said_to_be_gone_or_to_hang(tmp_path: Path) -> None:
    at = datetime.now(UTC) - timedelta(minutes=3)
    holder = {"epoch": 1, "run_id": "r", "step": "publish", "host": "h", "pid": 7, "began": "", "acquired_at": at}
    small_tables.append(TablePaths(str(tmp_path), "orders").table("leases"), [holder], system_tables.LEASES)
    assert "No sign of life" in pages.now(pages.View.of(SHIPPED, str(tmp_path), Links()), span="1d")
    with lease.held(TablePaths(str(tmp_path), "shop"), "r", "publish"):
        living = SHIPPED.model_copy(update={"name": "shop"})
        text = pages.now(pages.View.of(living, str(tmp_path), Links()), span="1d")
    assert "<b>publish</b>" in text and "No sign of life" not in text


def test_texts_of_the_source_are_escaped_wherever_they_stand(tmp_path: Path) -> None:
    paths, at = TablePaths(str(tmp_path), "orders"), datetime.now(UTC) - timedelta(hours=1)
    names = {"transaction_id": HOSTILE, "xid": HOSTILE, "cause": HOSTILE}
    waits = {**names, "expected": {HOSTILE: 2}, "received": {HOSTILE: 1}, "csn": 7, "first_landed_at": at}
    small_tables.append(
        paths.table("pending_transactions"),
        [{**waits, "age_seconds": 5, "as_of": at}],
        system_tables.PENDING_TRANSACTIONS,
    )
    letter = {**names, "detail": HOSTILE, "file": HOSTILE, "line": 1, "kind": "row", "table": HOSTILE, "op": HOSTILE}
    small_tables.append(paths.dead_letters, [{**letter, "dead_at": at, "landed_at": at}], system_tables.DEAD_LETTERS)
    step = {"run_id": HOSTILE, "step": HOSTILE, "at": at, "counts": {HOSTILE: 3}, "detail": HOSTILE, "balanced": False}
    small_tables.append(paths.table("ledger"), [step], system_tables.LEDGER)
    cut = {
        "cut_id": 1,
        "run_id": HOSTILE,
        "valid_through": 1,
        "release": 1,
        "published_at": at,
        "versions": {HOSTILE: 1},
    }
    cut |= {"gaps": [{"xid": HOSTILE, "csn": 3, "cause": HOSTILE}], "amends": [{"cut_id": 1, "xid": HOSTILE, "csn": 2}]}
    small_tables.append(paths.table("cuts"), [cut], system_tables.CUTS)
    finding = {"code": HOSTILE, "severity": "error", "table": HOSTILE, "column": HOSTILE, "evidence": HOSTILE}
    finding |= {"xid": HOSTILE, "hint": HOSTILE, "status": "open", "since_csn": 1, "needs_snapshot": True, "at": at}
    small_tables.append(paths.table("findings"), [finding], system_tables.FINDINGS)
    view = pages.View.of(SHIPPED, str(tmp_path), Links())
    shown = (
        pages.now(view, span="1d"),
        pages.waiting(view, page=1, cause=None, longer=None),
        pages.letters(view, page=1, cause=None, transaction=None),
        pages.ledger(view, page=1),
        pages.cuts(view, page=1),
        pages.findings(view, page=1),
    )
    for text in shown:
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and 'class="sign">U+202E<' in text
        assert "<script>alert" not in text and "\u202e" not in text


def test_findings_say_how_far_the_connector_is_with_what_it_was_asked_for(tmp_path: Path) -> None:
    signals = Signals(topic="signals", notifications="notices")
    source = SHIPPED.source.model_copy(update={"signals": signals})
    view = pages.View.of(SHIPPED.model_copy(update={"source": source}), str(tmp_path), Links())
    paths = TablePaths(str(tmp_path), "orders")
    findings.record(paths, [Finding(UNKNOWN_ROW, "orders", None, 7, "x1", "it was never seen")], "r")
    text = pages.findings(view, page=1)
    assert 'href="/dags/orders_snapshot"' in text and "was asked for" not in text
    sent = requested_snapshots.write(paths, Request("txloom-1", "r", ("orders",), 70), "sent")
    requested_snapshots.write(paths, sent, "failed", detail=HOSTILE)
    text = pages.findings(view, page=1)
    assert "Snapshots that the connector was asked for" in text and ">failed</span>" in text
    assert "<script>alert" not in text
    without = pages.findings(pages.View.of(SHIPPED, str(tmp_path), Links()), page=1)
    assert "orders_snapshot" not in without
