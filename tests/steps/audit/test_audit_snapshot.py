"""The audit of a lake against the files of a snapshot folder: equal as of its csn, and every difference is named."""

import shutil
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from lake import Lake, arrivals, new_lake
from oracle import capture, declarations
from oracle.state import Source
from steps.snapshots.test_load_snapshot import write
from txloom.cli import main
from txloom.config import load
from txloom.errors import ConfigurationError, SourceUnavailable
from txloom.quality import findings as f
from txloom.steps.audit.audit import audit
from txloom.steps.audit.audit_scope import Choice
from txloom.steps.audit.differing_rows import Chosen, snapshot_of
from txloom.steps.audit.repair import repair
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.checks.audited_rows import audited_tables
from txloom.storage.checks.findings import open_findings
from txloom.storage.paths import TablePaths
from workloads.small_lake import SmallLake

KINDS = dict(zip(declarations.TABLES, ("jsonl", "csv.gz", "parquet") * 2, strict=True))


def upper(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name.upper(): value for name, value in row.items()} for row in rows]


def export(folder: Path, source: Source, csn: int) -> Path:
    """Write the rows of all tables as of a csn, each table in files of another kind."""
    for table, rows in source.state_as_of(csn).items():
        write(folder, table, upper(rows.values()), KINDS[table])
    return folder


def compared(lake: Lake, folder: Path, csn: int | None, **choice: Any) -> dict[str, Any]:
    choice_ = Choice(snapshot=str(folder), csn=csn, wait=timedelta(seconds=0), **choice)
    return dict(audit(step_of(lake.pipeline, lake.warehouse, f"audit-{csn}"), choice_))


def newest(lake: Lake) -> dict[str, Any]:
    return {row["table"]: row for row in lake.query("audit_results", "select * from t order by at")}


@pytest.fixture(scope="module")
def whole_sample(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the warehouse of a lake that has processed the whole sample, one arrival in each run."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        lake = new_lake(spark, tmp_path_factory.mktemp("sample"), monkeypatch)
        for arrival in arrivals():
            lake.deliver(arrival)
            lake.run()
    return Path(lake.warehouse)


@pytest.fixture
def sampled(spark: Any, whole_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Lake, Source]:
    """Return a copy of the lake of `whole_sample`, which a test may change, and the source of the sample."""
    lake = new_lake(spark, tmp_path, monkeypatch)
    shutil.copytree(whole_sample, lake.warehouse, dirs_exist_ok=True)
    lake.runs = len(arrivals())
    return lake, Source(capture.read(arrivals()))


@pytest.mark.long
def test_each_cut_equals_an_extract_as_of_its_csn(sampled: tuple[Lake, Source], tmp_path: Path) -> None:
    lake, source = sampled
    for cut in lake.query("cuts", "select cut_id, valid_through from t order by cut_id"):
        csn = cut["valid_through"]
        folder = export(tmp_path / str(csn), source, csn)
        counts = compared(lake, folder, csn)
        state = source.state_as_of(csn)
        keyed = {table.name for table in lake.pipeline.tables if table.key}
        assert (counts["differing"], counts["unsettled"], counts["behind"]) == (0, 0, 0)
        assert counts["rows"] == sum(len(rows) for table, rows in state.items() if table in keyed)
        assert {row["verdict"] for row in newest(lake).values()} == {"equal"}


def test_rows_that_changed_between_an_extract_and_the_next_cut_are_no_difference(
    sampled: tuple[Lake, Source], tmp_path: Path
) -> None:
    lake, source = sampled
    csns = source.csns[len(source.csns) // 3 :: len(source.csns) // 6]
    seen = [compared(lake, export(tmp_path / str(csn), source, csn), csn) for csn in csns]
    assert [(each["differing"], each["behind"]) for each in seen] == [(0, 0)] * len(seen)
    assert any(each["unsettled"] for each in seen)


def test_planted_differences_are_named_whatever_the_kind_of_file(sampled: tuple[Lake, Source], tmp_path: Path) -> None:
    lake, source = sampled
    csn = source.csns[-1]
    folder, expected = tmp_path / "export", dict[str, set[tuple[str, ...]]]()
    for table, rows in source.state_as_of(csn).items():
        declared = lake.pipeline.table(table)
        images = [dict(row) for row in rows.values()]
        texts = [c.name for c in declared.columns if c.name not in declared.key and c.type.kind == "string"]
        if declared.key and len(images) > 2 and texts:
            column = texts[0]
            images[0][column] = "planted"
            missing = dict(images[1])
            new = declared.key[0]
            images[1][new] = "987654321"
            key = [tuple(str(row[name]) for name in declared.key) for row in (images[0], missing, images[1])]
            expected[table] = {(*key[0], "changed", column), (*key[1], "extra", ""), (*key[2], "missing", "")}
        write(folder, table, upper(images), KINDS[table])
    counts = compared(lake, folder, csn)
    named = {
        table: {(*dict(d["key"]).values(), d["kind"], d["column"] or "") for d in row["differences"]}
        for table, row in newest(lake).items()
    }
    assert {table: rows for table, rows in named.items() if rows} == expected
    assert counts["differing"] == 3 * len(expected) > 6
    assert {row["table"] for row in open_findings(TablePaths(lake.warehouse, lake.pipeline.name))} == set(expected)


def planted(lake: Lake, folder: Path, source: Source, csn: int) -> None:
    """Export all tables as of a csn, with another text in an order that does not change later."""
    rows, later = source.state_as_of(csn)["orders"], source.state_as_of(source.csns[-1])["orders"]
    images = [dict(row) for row in rows.values()]
    column = next(c.name for c in lake.pipeline.table("orders").columns if c.type.kind == "string")
    image = next(each for each in images if each in later.values())
    image[column] = "planted"
    export(folder, source, csn)
    write(folder, "orders", upper(images), KINDS["orders"])


def still_open(lake: Lake) -> list[str]:
    return [row["code"] for row in open_findings(TablePaths(lake.warehouse, lake.pipeline.name))]


def test_a_finding_of_an_audit_closes_by_a_load_that_is_as_new_as_the_audit_and_by_no_older_one(
    sampled: tuple[Lake, Source], tmp_path: Path
) -> None:
    lake, source = sampled
    csn, before = source.csns[-1], source.csns[-3]
    planted(lake, tmp_path / "now", source, csn)
    assert compared(lake, tmp_path / "now", csn)["differing"] == 1
    assert still_open(lake) == [f.DIFFERS]
    for number, (as_of, expected) in enumerate([(before, [f.DIFFERS]), (csn, [])]):
        folder = export(tmp_path / f"load-{number}", source, as_of)
        step = step_of(lake.pipeline, lake.warehouse, f"load-{number}", lake.spark)
        load_snapshot(step, Snapshot(str(folder), as_of, tables=["orders"]))
        lake.run()
        assert still_open(lake) == expected


def test_a_finding_stays_open_where_the_load_was_there_before_the_audit(
    sampled: tuple[Lake, Source], tmp_path: Path
) -> None:
    lake, source = sampled
    csn = source.csns[-1]
    step = step_of(lake.pipeline, lake.warehouse, "load", lake.spark)
    load_snapshot(step, Snapshot(str(export(tmp_path / "load", source, csn)), csn, tables=["orders"]))
    lake.run()
    planted(lake, tmp_path / "now", source, csn)
    assert compared(lake, tmp_path / "now", csn)["differing"] == 1
    lake.run()
    assert still_open(lake) == [f.DIFFERS]


def test_after_a_repair_an_audit_by_the_same_files_reads_no_cut_from_before_it(
    sampled: tuple[Lake, Source], tmp_path: Path
) -> None:
    lake, source = sampled
    cuts = lake.query("cuts", "select cut_id, valid_through from t order by cut_id")
    csn = cuts[-2]["valid_through"]
    planted(lake, tmp_path / "export", source, csn)
    assert compared(lake, tmp_path / "export", csn)["differing"] == 1
    assert newest(lake)["orders"]["cut_id"] == cuts[-2]["cut_id"]
    assert repair(step_of(lake.pipeline, lake.warehouse, "repair"), Chosen())["rows"] == 1
    lake.run()
    folder, as_of = snapshot_of(audited_tables(TablePaths(lake.warehouse, lake.pipeline.name))) or ("", 0)
    assert compared(lake, Path(folder), as_of)["differing"] == 0
    assert newest(lake)["orders"]["cut_id"] > cuts[-1]["cut_id"]


def test_an_audit_that_did_not_decide_hides_none_that_did(sampled: tuple[Lake, Source], tmp_path: Path) -> None:
    lake, source = sampled
    csn, paths = source.csns[-1], TablePaths(lake.warehouse, lake.pipeline.name)
    planted(lake, tmp_path / "export", source, csn)
    assert compared(lake, tmp_path / "export", csn)["differing"] == 1
    assert compared(lake, tmp_path / "export", csn + 1)["behind"] == 1
    assert [(each.table, each.run_id) for each in audited_tables(paths)] == [("orders", f"audit-{csn}")]
    assert newest(lake)["orders"]["verdict"] == "behind"


def test_a_lake_that_does_not_show_the_csn_yet_is_behind(sampled: tuple[Lake, Source], tmp_path: Path) -> None:
    lake, source = sampled
    csn = source.csns[-1]
    folder = export(tmp_path / "export", source, csn)
    rows = [*source.state_as_of(csn)["orders"].values()]
    write(folder, "orders", upper([*rows, {**rows[0], "order_id": "987654321"}]), KINDS["orders"])
    counts = compared(lake, folder, csn + 1)
    assert (counts["differing"], counts["behind"]) == (0, 1)
    assert compared(lake, folder, csn)["differing"] == 1


def test_what_cannot_be_compared_is_named(sampled: tuple[Lake, Source], tmp_path: Path) -> None:
    lake, source = sampled
    folder, csn = export(tmp_path / "export", source, source.csns[-1]), source.csns[-1]
    with pytest.raises(ConfigurationError, match="as of which csn are its rows"):
        compared(lake, folder, None)
    with pytest.raises(SourceUnavailable, match="the snapshot's folder does not exist"):
        compared(lake, tmp_path / "none", csn)
    with pytest.raises(ConfigurationError, match="a csn is that of a snapshot folder"):
        audit(step_of(lake.pipeline, lake.warehouse, "x"), Choice(csn=7))
    rows = upper(source.state_as_of(csn)["orders"].values())
    lacking = [{name: value for name, value in row.items() if name != "NOTES"} for row in rows]
    for changed, refused in (
        ([rows[0], rows[1], rows[0]], r"the key order_id \d+ of orders stands in it twice"),
        ([rows[0], {**rows[1], "ORDER_ID": None}], r"rows.jsonl: row 2: order_id: a key without a value"),
        ([rows[0], {**rows[1], "ORDER_ID": "x"}], r"rows.jsonl: row 2: order_id"),
        (lacking, "orders: no row of its files has column notes"),
    ):
        for file in (folder / "orders").iterdir():
            file.unlink()
        write(folder, "orders", changed)
        with pytest.raises(ConfigurationError, match=refused):
            compared(lake, folder, csn, tables=["orders"])
    for file in (folder / "orders").iterdir():
        file.unlink()
    (folder / "orders").rmdir()
    everything = len([table for table in lake.pipeline.tables if table.key])
    assert compared(lake, folder, csn)["tables"] == everything - 1
    with pytest.raises(ConfigurationError, match=r"orders: .* has no folder of it; it has "):
        compared(lake, folder, csn, tables=["orders"])


DATED = """
name: club
source: {{format: snapshots, files: {{path: {inbox}}}, snapshots: {{extracts: full}}}}
completeness: {{rule: single}}
tables:
  - name: players
    source: CLUB.PLAYERS
    key: [team, id]
    columns: {{team: string, id: int, born: date, pay: 'decimal(9,2)'}}
targets: {{mirrors: ["*"]}}
"""


def test_the_extracts_of_a_date_say_their_csn_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inbox = tmp_path / "inbox"
    (tmp_path / "club.yaml").write_text(DATED.format(inbox=inbox))
    lake = SmallLake(tmp_path, load(tmp_path / "club.yaml", connected=False))
    for day, pay in ((1, "1.50"), (2, "2.50")):
        folder = inbox / f"2026-11-0{day}"
        rows = [
            {"team": team, "id": n, "born": "2001-05-06", "pay": pay} for team in ("b", "ä", "a b", "") for n in (2, 10)
        ]
        write(folder, "players", rows[: 8 - day])
        (folder / "_SUCCESS").touch()
        lake.run()
    command = ["audit", str(tmp_path / "club.yaml"), "--warehouse", lake.warehouse, "--wait", "0"]
    for day in (1, 2):
        assert main([*command, "--snapshot", str(inbox / f"2026-11-0{day}")]) == 0
    assert main([*command, "--snapshot", str(inbox / "2026-11-01"), "--csn", "20261102"]) == 6
    assert "in the source" in capsys.readouterr().out
    assert main(command) == 2
    assert "add `audit: {connection: ...}`, or say --snapshot FOLDER" in capsys.readouterr().err
