"""Edits of the declaration of a source whose changes stand alone, after messages were removed."""

import json
from pathlib import Path

import pytest

from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.quality import findings as f
from txloom.steps.backfill import rebuild
from txloom.storage.checks import findings
from txloom.storage.delta import arrow_tables, data_files
from txloom.storage.spark import tasks
from workloads.small_lake import SmallLake

TABLE = "  - {{name: {name}, source: APP.{upper}, key: [id], columns: {{id: long}}}}\n"
HEAD = (
    "name: shop\nsource: {{format: change_events, files: {{path: {inbox}}}}}\ncompleteness: {{rule: single}}\ntables:\n"
)
DOCUMENTS = "{name: doc, root: a}"


def declare(folder: Path, tables: str, aggregates: str = "") -> SmallLake:
    """Return a lake of some tables, each with a mirror."""
    inbox = folder / "inbox"
    text = HEAD.format(inbox=inbox) + "".join(TABLE.format(name=each, upper=each.upper()) for each in tables)
    text += f"targets: {{mirrors: [{', '.join(tables)}], aggregates: [{aggregates}]}}\n"
    (folder / "shop.yaml").write_text(text)
    return SmallLake(folder, load(folder / "shop.yaml"))


def insert(folder: Path, at: int, table: str) -> None:
    """Let the source insert the row with the id `at` into a table."""
    topic = folder / "inbox" / table
    topic.mkdir(parents=True, exist_ok=True)
    event = {"changeType": "insert", "timestamp": at, "table": f"APP.{table.upper()}"}
    (topic / f"{at}.jsonl").write_text(json.dumps({**event, "columnNames": ["id"], "columnValues": [at]}) + "\n")


def edit(folder: Path, lake: SmallLake, tables: str, aggregates: str = "") -> None:
    """Declare other tables and run a cycle."""
    lake.pipeline = declare(folder, tables, aggregates).pipeline
    lake.run()


def ids(lake: SmallLake, table: str) -> list[int] | None:
    """Return the ids that a current table has in the newest cut; None: the cut lacks it."""
    cut = max(lake.rows("cuts"), key=lambda each: int(each["cut_id"]))
    version = dict(cut["versions"]).get(table)
    return None if version is None else sorted(row["id"] for row in lake.rows(table, version))


def test_a_table_whose_changes_were_removed_before_anybody_watched_it_needs_a_snapshot(tmp_path: Path) -> None:
    lake = declare(tmp_path, "a")
    for at, table in ((10, "a"), (11, "b"), (12, "b"), (13, "a")):
        insert(tmp_path, at, table)
    lake.run()
    lake.forget()
    insert(tmp_path, 20, "b")
    edit(tmp_path, lake, "ab")
    assert ids(lake, "a") == [10, 13]
    assert ids(lake, "b") is None
    (row,) = [row for row in findings.open_findings(lake.paths) if row["code"] == f.INCOMPLETE]
    assert (row["table"], row["since_csn"]) == ("b", 11)
    assert "(csn 11 to 12)" in row["evidence"]


def test_changes_that_were_delivered_again_are_not_missing(tmp_path: Path) -> None:
    lake = declare(tmp_path, "a")
    for at, table in ((10, "a"), (11, "b")):
        insert(tmp_path, at, table)
    lake.run()
    lake.forget()
    event = tmp_path / "inbox" / "b" / "11.jsonl"
    event.with_name("12.jsonl").write_text(f"\n{event.read_text()}")
    lake.run()
    edit(tmp_path, lake, "ab")
    assert ids(lake, "b") == [11]


def test_a_table_that_was_renamed_between_two_landings_has_the_rows_of_both(tmp_path: Path) -> None:
    lake = declare(tmp_path, "a", DOCUMENTS)
    insert(tmp_path, 10, "a")
    lake.land()
    file = tmp_path / "shop.yaml"
    renamed = file.read_text().replace("name: a,", "name: z,").replace("mirrors: [a]", "mirrors: [z]")
    file.write_text(renamed.replace("root: a", "root: z"))
    lake.pipeline = load(file)
    insert(tmp_path, 20, "a")
    lake.run()
    assert ids(lake, "z") == [10, 20]
    assert sorted(row["id"] for row in lake.rows("z_changes")) == [10, 20]
    assert ids(lake, "doc_current") == [10, 20]


def test_documents_of_tables_with_mirrors_need_no_message(tmp_path: Path) -> None:
    lake = declare(tmp_path, "a")
    insert(tmp_path, 10, "a")
    lake.run()
    lake.forget()
    edit(tmp_path, lake, "a", DOCUMENTS)
    assert ids(lake, "doc_current") == [10]


CHANGE_SETS = """
name: shop
source: {{format: change_sets, files: {{path: {inbox}, settle: 0s}}, change_sets: {{{fields}}}}}
completeness: {{rule: {rule}}}
tables: [{{name: a, source: APP.A, key: {key}, columns: {{id: long, n: long}}}}]
targets: {{mirrors: [a]}}
"""
RULES = {"alone": ("single", ""), "in a transaction": ("progress", "transaction: TX")}


@pytest.mark.parametrize("rows", [2, rebuild.SHARE])
@pytest.mark.parametrize("case", RULES)
def test_equal_rows_of_a_change_set_stay_several_and_a_file_that_came_again_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, rows: int
) -> None:
    rule, fields = RULES[case]
    inbox = tmp_path / "inbox"

    def declared(key: str) -> Pipeline:
        text = CHANGE_SETS.format(inbox=inbox, fields=fields, rule=rule, key=key)
        (tmp_path / "shop.yaml").write_text(text)
        return load(tmp_path / "shop.yaml")

    def send(name: str, tx: int, *values: int) -> None:
        (inbox / "APP.A").mkdir(parents=True, exist_ok=True)
        row = {"FLAG": "U", "CDC_TIMESTAMP": f"2026-01-01T00:00:0{tx}Z", "TX": tx, "ID": 1}
        sent = [json.dumps({**row, "N": value}) for value in values]
        sent += [json.dumps({"FLAG": "H", "TX": tx + 1})] if fields else []
        (inbox / "APP.A" / f"{name}.jsonl").write_text("\n".join([*sent, ""]))

    lake = SmallLake(tmp_path, declared("[id]"))
    monkeypatch.setattr(data_files, "ROW_GROUP", 2)
    for name, tx in (("1", 1), ("2", 1), ("3", 2)):
        send(name, tx, 10, 11, 10, 10)
        lake.run()
    # Processes do the work, also where an earlier test opened a session.
    monkeypatch.setattr(tasks, "_is_session_open", lambda: False)
    monkeypatch.setattr(arrow_tables, "LOCAL_ROWS", 0)
    monkeypatch.setattr(rebuild, "SHARE", rows)
    lake.pipeline = declared("[id, n]")
    lake.run()
    made = sorted((row["_txloom_csn"], row["n"]) for row in lake.rows("a_changes"))
    assert len({csn for csn, _ in made}) == 2
    assert [n for _, n in made] == [10, 10, 10, 11] * 2


@pytest.mark.parametrize("edited", ["ab", "z"], ids=["beside another table", "under another name"])
def test_rows_of_a_file_that_grew_while_its_table_was_edited_stay_as_many(tmp_path: Path, edited: str) -> None:
    inbox = tmp_path / "inbox"
    (inbox / "APP.A").mkdir(parents=True)

    def declared(names: str) -> Pipeline:
        sources = {"a": "APP.A", "b": "APP.B", "z": "APP.A"}
        tables = ", ".join(f"{{name: {n}, source: {sources[n]}, key: none, columns: {{n: long}}}}" for n in names)
        text = BESIDE.format(inbox=inbox, fields="", rule="single", tables=tables, mirrors=", ".join(names))
        (tmp_path / "shop.yaml").write_text(text)
        return load(tmp_path / "shop.yaml")

    lake, sent = SmallLake(tmp_path, declared("a")), list[str]()
    for values in ((10, 11, 10), (10, 12)):
        row = {"FLAG": "I", "CDC_TIMESTAMP": "2026-01-01T00:00:01Z"}
        sent += [json.dumps({**row, "N": value}) for value in values]
        (inbox / "APP.A" / "1.jsonl").write_text("\n".join([*sent, ""]))
        lake.land()
    lake.pipeline = declared(edited)
    lake.run()
    for table in (edited[0], f"{edited[0]}_changes"):
        assert sorted(row["n"] for row in lake.rows(table)) == [10, 10, 10, 11, 12]


BESIDE = """
name: shop
source: {{format: change_sets, files: {{path: {inbox}, settle: 0s}}, change_sets: {{{fields}}}}}
completeness: {{rule: {rule}}}
tables: [{tables}]
targets: {{mirrors: [{mirrors}]}}
"""


def test_rows_of_a_table_that_is_declared_later_are_numbered_as_in_their_own_delivery(tmp_path: Path) -> None:
    rule, fields = RULES["alone"]
    inbox = tmp_path / "inbox"

    def declared(names: str) -> Pipeline:
        tables = ", ".join(
            f"{{name: {name}, source: APP.{name.upper()}, key: none, columns: {{id: long, n: long}}}}" for name in names
        )
        text = BESIDE.format(inbox=inbox, fields=fields, rule=rule, tables=tables, mirrors=", ".join(names))
        (tmp_path / "shop.yaml").write_text(text)
        return load(tmp_path / "shop.yaml")

    def send(name: str, table: str, *values: int) -> None:
        (inbox / f"APP.{table.upper()}").mkdir(parents=True, exist_ok=True)
        row = {"FLAG": "I", "CDC_TIMESTAMP": "2026-01-01T00:00:01Z", "TX": 1, "ID": 1}
        lines = [json.dumps({**row, "N": value}) for value in values]
        (inbox / f"APP.{table.upper()}" / f"{name}.jsonl").write_text("\n".join([*lines, ""]))

    lake = SmallLake(tmp_path, declared("a"))
    for name in ("1", "2"):
        send(name, "b", 10, 11, 10, 10)
        lake.run()
    lake.pipeline = declared("ab")
    lake.run()
    assert sorted(row["n"] for row in lake.rows("b_changes")) == [10, 10, 10, 11]
