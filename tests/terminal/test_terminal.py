"""`txloom status` and `txloom explain`: what a terminal shows, what machines get, what is refused."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from storage.views.booked import NOON, Shop, at
from txloom.cli import main
from txloom.page import pages
from txloom.page.links import Links
from txloom.storage.delta.small_tables import append
from txloom.storage.system_tables import FINDINGS
from txloom.storage.targets import history_tables, schemas

Captured = pytest.CaptureFixture[str]
HOSTILE = "[red]<script>alert(1)</script>\x1b[31m\u202e\x07[/red]\n$(rm -rf /)"
SHOWN = "[red]<script>alert(1)</script>\\x1b[31m\\u202e\\x07[/red]\\n$(rm -rf /)"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return the only declared pipeline, whose warehouse the environment names."""
    monkeypatch.setenv("TXLOOM_PIPELINES", str(tmp_path))
    made = Shop(tmp_path)
    monkeypatch.setenv("TXLOOM_WAREHOUSE", made.warehouse)
    return made


def run(shop: Shop) -> None:
    shop.step("land_events", 1, counts={"landed": 5})
    shop.step("balance", 1, balanced=False, detail="1 events are not accounted for")
    cut = {"cut_id": 3, "valid_through": 7, "committed_at": NOON, "published_at": at(1)}
    shop.write("cuts", cut | {"versions": [("items", 4)], "gaps": [], "amends": []})


def written(shop: Shop, note: str) -> None:
    """Let one transaction be released that inserts and updates row 7, and be landed with a message."""
    system_columns = {"_txloom_xid": "x1", "_txloom_csn": 1, "_txloom_release": 1, "_txloom_committed_at": NOON}
    rows = [
        {"id": 7, "note": "first", "_txloom_op": "I", "_txloom_pos": 1, **system_columns},
        {"id": 7, "note": note, "_txloom_op": "U", "_txloom_pos": 2, **system_columns},
    ]
    history_tables.create(shop.pipeline, shop.paths)
    append(shop.paths.table("items_changes"), rows, schemas.changes_schema(shop.pipeline.table("items")))
    shop.land({"row": 1, "value": note})
    done = {"transaction_id": "x1:1", "xid": "x1", "csn": 1, "status": "released", "release": 1, "rows": 2}
    shop.write("transactions", done | {"committed_at": NOON, "finished_at": at(1)})
    shop.wait()


def run_command(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code
    return capsys.readouterr().out


def test_the_overview_says_why_and_what_readers_see(shop: Shop, capsys: Captured) -> None:
    run(shop)
    lines = run_command(capsys, "status").splitlines()
    assert lines[1].startswith("1 pipeline: 1 red; ")
    assert lines[2].split() == ["pipeline", "why", "readers", "see", "waiting", "dead", "letters", "cut", "as", "of"]
    assert lines[3].startswith("red  shop      ledger unbalanced: 1 events are not accounted for.  csn 7, ")


def test_a_declaration_that_is_refused_stands_in_the_overview(shop: Shop, capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "typo.yaml").write_text("name: typo\n")
    shown = run_command(capsys, "status")
    assert "2 pipelines: 1 red, 1 grey" in shown
    assert "red   typo      declaration refused: " in shown
    assert "grey  shop      nothing was landed yet" in shown


def test_since_says_what_changed_and_nothing_twice(shop: Shop, capsys: Captured) -> None:
    run(shop)
    finding = {"code": "csn jumped back", "severity": "error", "evidence": HOSTILE, "status": "open", "at": at(2)}
    append(shop.paths.table("findings"), [finding], FINDINGS)
    shown = run_command(capsys, "status", "shop", "--since", "2026-01-01T12:00")
    lines = [
        line.split("  ")[0].split()
        for line in shown.split("what changed since 2026-01-01 12:00:00 UTC\n")[1].splitlines()[1:3]
    ]
    assert lines == [["new"], []] and "finding: csn jumped back" in shown and SHOWN in shown
    assert "1 cut published: valid-through is 7; there was none before" in shown
    whole = run_command(capsys, "status", "--since", "2026-01-01T12:00")
    assert "shop: what changed since 2026-01-01 12:00:00 UTC" in whole and "finding: csn jumped back" in whole
    later = run_command(capsys, "status", "--since", "2026-01-01T12:03")
    assert "1 pipeline: 0 cuts published since 2026-01-01 12:03:00 UTC, and nothing else happened" in later
    assert "nothing changed since" in run_command(capsys, "status", "shop", "--since", "2026-01-01T12:03")
    rows = json.loads(run_command(capsys, "status", "shop", "--since", "2026-01-01T12:00", "--json"))["changes"]["rows"]
    assert [(row["urgency"], row["kind"]) for row in rows] == [("act", "finding"), ("moved", "cuts")]
    assert main(["status", "--since", "soon"]) == 2
    assert "since: found 'soon', expected a duration such as 2h or an ISO 8601 time" in capsys.readouterr().err


def test_one_pipeline_begins_with_what_is_wrong(shop: Shop, capsys: Captured) -> None:
    run(shop)
    waits = {"transaction_id": "x9:9", "csn": 9, "age_seconds": 7_300, "cause": "table short", "first_landed_at": NOON}
    shop.wait(waits | {"expected": [("items", 2)], "received": [("items", 1)], "as_of": at(1)})
    shown = run_command(capsys, "status", "shop")
    assert shown.startswith("red  shop\nas of 2026-01-01 12:01:00 UTC\nreaders see: csn 7, ")
    assert "ledger unbalanced: 1 events are not accounted for. (since 2026-01-01 12:01:00 UTC, " in shown
    assert "waiting transactions: 1, as of 2026-01-01 12:01:00 UTC (table short 1)" in shown
    assert "x9:9         9    2 h    table short  items 1/2" in shown
    assert "dead letters: 0 of 0 transactions" in shown
    assert "cuts: 1, as of 2026-01-01 12:01:00 UTC" in shown


def test_a_transaction_is_explained_by_xid_id_and_csn(shop: Shop, capsys: Captured) -> None:
    written(shop, "second")
    by_xid = run_command(capsys, "explain", "shop", "x1")
    assert (
        by_xid == run_command(capsys, "explain", "shop", "x1:1") == run_command(capsys, "explain", "shop", "--csn", "1")
    )
    assert by_xid.startswith("x1:1  released  xid x1, csn 1, committed 2026-01-01 12:00:00 UTC\n")
    assert "2 rows released into history by release 1." in by_xid
    assert "items  items_changes  2     I id=7, U id=7" in by_xid
    assert "2026-01-01 12:00:00 UTC  rows/1.jsonl, line 1  row  items  I\n    second\n" in by_xid


def test_a_key_is_explained_with_before_and_after(shop: Shop, capsys: Captured) -> None:
    written(shop, "second note")
    assert run_command(capsys, "explain", "shop", "--key", "items", "id=7") == (
        "items  id=7\n"
        "now, as of valid-through 0: no row\n"
        "\n"
        "changes, the newest first: 2, as of -\n"
        "\n"
        "csn 1  2026-01-01 12:00:00 UTC  xid x1  items id=7 updated\n"
        '  note: first -> "second note"\n'
        "\n"
        "csn 1  2026-01-01 12:00:00 UTC  xid x1  items id=7 inserted\n"
        "  id=7, note=first\n"
    )


def test_hostile_texts_are_shown_as_text_and_obeyed_by_no_terminal(shop: Shop, capsys: Captured) -> None:
    written(shop, HOSTILE)
    letter = {"transaction_id": HOSTILE, "kind": "row", "table": HOSTILE, "cause": HOSTILE, "file": HOSTILE, "line": 1}
    shop.write("dead_letters", letter | {"dead_at": NOON, "detail": HOSTILE, "value": "a secret"})
    shop.wait({"transaction_id": HOSTILE, "xid": HOSTILE, "csn": 9, "cause": HOSTILE, "received": [(HOSTILE, 1)]})
    shop.write("ledger", {"run_id": HOSTILE, "step": HOSTILE, "at": NOON, "detail": HOSTILE, "counts": []})
    row = {
        "expectation": "orphans",
        "severity": "block",
        "success": False,
        "checked": 1,
        "failed": 1,
        "checked_at": NOON,
    }
    shop.write(
        "expectation_results", row | {"sentence": HOSTILE, "hint": "Look.", "sample": json.dumps([{"note": HOSTILE}])}
    )
    commands = [("status",), ("status", "shop"), ("explain", "shop", "x1"), ("explain", "shop", HOSTILE)]
    commands += [("explain", "shop", "--key", "items", "id=7"), ("explain", "shop", "--csn", "9")]
    every = {command: run_command(capsys, *command) for command in commands}
    for command, shown in every.items():
        assert not [sign for sign in shown if not sign.isprintable() and sign != "\n"], command
        assert "a secret" not in shown
    assert f"    {SHOWN}\n" in every["explain", "shop", "x1"]
    assert f"{SHOWN}  waits  xid {SHOWN}, csn 9" in every["explain", "shop", HOSTILE].replace("\n", "")
    assert "[red]<script>" in every["explain", "shop", "--key", "items", "id=7"]
    for command in commands:
        output = run_command(capsys, *command, "--json")
        assert output.isascii()
        assert "\x1b" not in output


def test_lists_that_are_seldom_filled_are_shown_in_terminal_and_page(shop: Shop, capsys: Captured) -> None:
    """Each list has its columns by name: one that the read model calls otherwise ends the command, and the page."""
    run(shop)
    partition = {"landing": 1, "at": NOON, "topic": "dev.rows", "csn": 9}
    shop.write("source_partitions", {**partition, "partition": 0}, {**partition, "partition": 1, "torn": 4})
    shop.write("backfills", {"run_id": "july", "status": "applied", "at": at(1), "from_csn": 5, "to_csn": 6})
    until = datetime.now(UTC) + timedelta(days=1)
    shop.write("readers", {"reader": "a_reader", "cut_id": 3, "at": NOON, "until": until})
    lines = run_command(capsys, "status", "shop").splitlines()
    assert [line.split()[:4] for line in lines if line.startswith("dev.rows")] == [
        ["dev.rows", "0", "9", "2026-01-01"], ["dev.rows", "1", "9", "2026-01-01"]
    ]  # fmt: skip
    assert any(line.startswith("july") for line in lines) and any(line.startswith("a_reader") for line in lines)
    view = pages.View.of(shop.pipeline, shop.warehouse, Links())
    text = pages.ledger(view, page=1)
    assert text.count("unreadable messages after") == 1 and "unreadable messages after 4" in text and "july" in text
    assert "a_reader" in pages.cuts(view, page=1)


def test_no_csn_stands_for_the_end(shop: Shop, capsys: Captured) -> None:
    run(shop)
    bounds = {"from_csn": 0, "to_csn": 2**63 - 1}
    shop.write("backfills", {"run_id": "july", "status": "applied", "at": at(1), **bounds})
    edit = {"status": "dropped", "detail": "the declaration changed", "state": '{"tables": ["items"]}', **bounds}
    shop.write("backfills", {"run_id": "a4", "at": at(2), **edit})
    view = pages.View.of(shop.pipeline, shop.warehouse, Links())
    for text in (run_command(capsys, "status", "shop"), pages.ledger(view, page=1)):
        assert str(2**63 - 1) not in text
        assert "the end" in text
        assert "rebuilt after an edit: items" in text


def test_machines_get_the_read_model_as_json(shop: Shop, capsys: Captured) -> None:
    run(shop)
    written(shop, "second")
    overview = json.loads(run_command(capsys, "status", "--json"))
    assert [(row["pipeline"], row["color"], row["valid_through"]) for row in overview["rows"]] == [("shop", "red", 7)]
    one = json.loads(run_command(capsys, "status", "shop", "--json"))
    assert sorted(one) == [
        *("backfills", "cuts", "edits", "expectations", "findings", "health", "histories", "holds"),
        *("incidents", "letters", "partitions", "runs", "waiting"),
    ]
    assert (one["cuts"]["total"], one["cuts"]["rows"][0]["versions"]) == (1, {"items": 4})
    story = json.loads(run_command(capsys, "explain", "shop", "x1", "--json"))["story"]
    assert (story["status"], story["committed_at"]) == ("released", "2026-01-01T12:00:00+00:00")
    key = json.loads(run_command(capsys, "explain", "shop", "--key", "items", "id=7", "--json"))
    assert [row["changed"] for row in key["page"]["rows"]] == [["note"], []]


def test_an_ambiguous_xid_lists_its_transactions(shop: Shop, capsys: Captured) -> None:
    rows = [{"transaction_id": f"x1:{n}", "xid": "x1", "csn": n, "status": "released", "release": 1} for n in (1, 2)]
    shop.write("transactions", *rows)
    shown = run_command(capsys, "explain", "shop", "x1")
    assert "xid x1 is 2 transactions: ask for one by its id, or by --csn" in shown
    assert "x1:2            2    -             released" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["status", "shp"],
            "status: {folder}: found no pipeline 'shp', expected a file shp.yaml. Did you mean 'shop'?",
        ),
        (["explain", "shop"], "explain: explain what? give one of XID, --csn N and --key TABLE COLUMN=VALUE"),
        (
            ["explain", "shop", "x1", "--csn", "1"],
            "explain: explain what? give one of XID, --csn N and --key TABLE COLUMN=VALUE",
        ),
        (
            ["explain", "shop", "--key", "itms", "id=1"],
            "explain: pipeline shop has no table 'itms'. Did you mean 'items'?",
        ),
        (["explain", "shop", "--key", "items", "id"], "explain: --key items: found 'id', expected COLUMN=VALUE"),
        (["explain", "shop", "--key", "items"], "explain: items has the key id=...; found nothing"),
        (
            ["explain", "shop", "x1", "--page", "0"],
            "explain: page 0 of 50 rows: pages count from 1 and have 1 to 1000 rows",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused_with_what_there_is(
    shop: Shop, capsys: Captured, tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"txloom {message.format(folder=tmp_path)}\n")


def test_without_a_warehouse_nothing_is_shown(shop: Shop, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TXLOOM_WAREHOUSE")
    for arguments in (["status"], ["status", "shop"], ["explain", "shop", "x1"]):
        assert main(arguments) == 2
        why = f"txloom {arguments[0]}: no warehouse: pass --warehouse or set TXLOOM_WAREHOUSE\n"
        assert capsys.readouterr().err == why
    assert main(["status", "--warehouse", shop.warehouse]) == 0


def test_what_nobody_knows_ends_with_5(shop: Shop, capsys: Captured) -> None:
    shown = run_command(capsys, "explain", "shop", "x1", code=5)
    assert shown == "nothing was ever landed of xid x1 in pipeline shop, as of -\n"
    shown = run_command(capsys, "explain", "shop", "--key", "items", "id=7", code=5)
    assert shown == "items  id=7\nnow, as of valid-through 0: no row\n\nchanges, the newest first: 0, as of -\n"


def test_ten_thousand_stuck_transactions_are_one_short_page(shop: Shop, capsys: Captured) -> None:
    shop.wait(*({"transaction_id": f"x{n}:{n}", "csn": n, "cause": "table short"} for n in range(10_000)))
    shown = run_command(capsys, "status", "shop", "--rows", "20")
    assert "waiting transactions: 20 of 10000, as of - (table short 10000)" in shown
    assert len(shown.splitlines()) < 60


def test_neither_spark_nor_airflow_is_loaded_for_it(shop: Shop) -> None:
    code = (
        "import sys; from txloom.cli import main; main(['status', 'shop']); main(['explain', 'shop', 'x1'])\n"
        "print(sorted({'pyspark', 'delta', 'airflow', 'great_expectations'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_help_tells_the_exit_codes(capsys: Captured) -> None:
    for command in ("status", "explain"):
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        printed: Any = " ".join(capsys.readouterr().out.split())
        assert (ended.value.code, "exit codes: 0 shown; 2 refused: an unknown pipeline" in printed) == (0, True)
