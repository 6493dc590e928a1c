"""What lakes of edited declarations found, each as the shortest workload that shows it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from shutil import rmtree

import pytest
from rich.console import Console, Group

from oracle.declarations import Table
from txloom import read
from txloom.config import load
from txloom.quality import findings as f
from txloom.steps.declarations.declare import declare, declare_redecoded
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.buffer import batch_plan
from txloom.storage.buffer.newest_batch import buffer_state
from txloom.storage.checks import findings
from txloom.storage.declarations import records
from txloom.storage.health.facts import facts
from txloom.storage.views.pipeline.cuts import cuts
from txloom.storage.views.stories.row import key_story
from txloom.terminal import explain
from workloads.named.test_named_lakes import LOG, PLAIN, commit, cycle, inserted, lake_of, messages, row
from workloads.named.test_snapshots_taken_again import flat, needing, rows_of, taken
from workloads.play import Play, impatient
from workloads.small_lake import SmallLake
from workloads.sources.database import Change, Sent, State
from workloads.sources.shapes import Shape, SourceText, declaration

OTHER = Table("other", "APP.OTHER", ("id",), {"id": "long", "v": "string"})
GTIDS = 3
"""A seed of a MySQL whose END names a GTID, and no place in the log."""


def declared(folder: Path, made: Play, tables: Sequence[Table]) -> Path:
    """Write the declaration of some of the source's tables."""
    writer, file = made.writer, folder / "workload.yaml"
    shape = Shape({table.name: table for table in tables}, None, made.dimensions)
    source = SourceText(writer.source, writer.rule, writer.layout, "10d")
    file.write_text(declaration(shape, folder / "inbox", source=source))
    return file


def insert(made: Play, csn: int, table: Table, number: int) -> Sent:
    """Commit one insert into a table."""
    state: State = {each.name: {} for each in (PLAIN, OTHER)}
    change = Change(table, "I", None, row(number, "a"), tuple(table.columns))
    sent = Sent("", csn, [], None, state, [change], number)
    made.writer.write(sent)
    return sent


def insert_both(made: Play, csn: int) -> Sent:
    """Commit one transaction with an insert into each of both tables."""
    changes = [Change(table, "I", None, row(1, "a"), tuple(table.columns)) for table in (PLAIN, OTHER)]
    sent = Sent("", csn, [], None, {each.name: {} for each in (PLAIN, OTHER)}, changes, 1)
    made.writer.write(sent)
    return sent


def test_a_transaction_that_had_no_watched_row_to_place_it_has_its_place_once_it_has(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/mysql", PLAIN, GTIDS, more=[OTHER])
    assert made.writer._gtids
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    sent = [insert(made, 1000, PLAIN, 1), insert(made, 1010, OTHER, 2), insert(made, 1020, PLAIN, 3)]
    cycle(lake, producer, messages(*sent))
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, OTHER]))
    cycle(lake, producer, messages(insert(made, 1030, OTHER, 4)))
    assert sorted((each["id"], each["_txloom_csn"]) for each in lake.rows("other")) == [(2, 1010), (4, 1030)]


def test_a_column_that_was_left_out_while_a_table_got_another_key_has_all_its_values_again(tmp_path: Path) -> None:
    table = replace(PLAIN, columns={**PLAIN.columns, "w": "string"})
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", table)
    cycle(lake, producer, messages(commit(made, 1000, ("I", None, {**row(1, "a"), "w": "x"}))))
    without = {name: kind for name, kind in table.columns.items() if name != "v"}
    for other in (replace(table, columns=without), replace(table, columns=without, key=("id", "w"))):
        lake.pipeline = load(declared(tmp_path, made, [other]))
        cycle(lake, producer, ())
    lake.pipeline = load(declared(tmp_path, made, [replace(table, key=("id", "w"))]))
    cycle(lake, producer, ())
    assert [(each["id"], each["v"], each["w"]) for each in lake.rows("t")] == [(1, "a", "x")]


def test_a_column_that_was_left_out_with_its_table_has_all_its_values_again(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    cycle(lake, producer, messages(insert(made, 1000, OTHER, 1)))
    without = replace(OTHER, columns={"id": "long"})
    for csn, tables in ((1010, [PLAIN, without]), (1020, [PLAIN]), (1030, [PLAIN, without]), (1040, [PLAIN, OTHER])):
        lake.pipeline = load(declared(tmp_path, made, tables))
        cycle(lake, producer, messages(insert(made, csn, OTHER if csn == 1020 else PLAIN, csn)))
    assert sorted((each["id"], each["v"]) for each in lake.rows("other")) == [(1, "a"), (1020, "a")]


def test_a_row_behind_the_last_watched_one_is_of_its_transaction(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/mysql", PLAIN, GTIDS, more=[OTHER])
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    sent = insert_both(made, 1000)
    cycle(lake, producer, messages(sent))
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, OTHER]))
    cycle(lake, producer, ())
    assert (ids_of(lake, "other"), needing(lake)) == ([1], [])


@pytest.mark.parametrize("is_left_out", [True, False], ids=["the table of one of them", "all"])
def test_two_transactions_of_one_id_are_made_again_each_of_its_own_rows(tmp_path: Path, is_left_out: bool) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    made.writer.steps = (1, 1)
    cycle(lake, producer, messages(insert(made, 100, OTHER, 1), insert(made, 150, PLAIN, 2)))
    lake.pipeline = load(declared(tmp_path, made, [PLAIN] if is_left_out else [PLAIN, OTHER]))
    made.writer.wrap()
    cycle(lake, producer, messages(insert(made, 1000, OTHER, 3)))
    assert len({each["transaction_id"] for each in lake.rows("transactions")}) == 2
    another = OTHER if is_left_out else replace(OTHER, key=("id", "v"))
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, another]))
    cycle(lake, producer, ())
    assert needing(lake) == []
    assert sorted((each["id"], each["_txloom_csn"]) for each in lake.rows("other")) == [(1, 100), (3, 1000)]


@pytest.mark.parametrize("is_gone", [False, True], ids=["kept", "gone"])
def test_a_row_that_waits_unwatched_is_taken_although_an_earlier_transaction_had_its_id(
    tmp_path: Path, is_gone: bool
) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    made.writer.steps = (1, 1)
    cycle(lake, producer, messages(insert(made, 100, OTHER, 1), insert(made, 150, PLAIN, 2)))
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    made.writer.wrap()
    sent = insert(made, 1000, OTHER, 3)
    cycle(lake, producer, sent.rows, messages(insert(made, 1010, PLAIN, 4)))
    assert {each["transaction_id"] for each in lake.rows("change_events") if each["table"] is None} & {
        each["transaction_id"] for each in lake.rows("transactions")
    }
    if is_gone:
        lake.forget()
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, OTHER]))
    cycle(lake, producer, ())
    if is_gone:
        assert [(code, table) for code, table, _ in needing(lake)] == [(f.INCOMPLETE, "other")]
        return
    cycle(lake, producer, messages(sent)[-1:])
    assert (needing(lake), ids_of(lake, "other")) == ([], [1, 3])
    assert not lake.rows("pending_transactions")


def test_a_row_known_by_its_place_alone_is_one_row_though_it_was_decoded_twice(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/oracle", PLAIN, more=[OTHER])
    state: State = {"t": rows_of(PLAIN, row(1, "a")), "other": rows_of(OTHER, row(4, "w"))}
    cycle(lake, producer, messages(insert(made, 100, PLAIN, 3)))
    without_key = replace(OTHER, key=())
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, without_key]))
    rows = [message for message in flat(taken(made, 1000, state)) if "APP.OTHER" in message[0]]
    producer.deliver([rows[0], rows[0]], last=False)
    lake.land()
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, replace(without_key, name="others")]))
    cycle(lake, producer, messages(insert(made, 2000, PLAIN, 9)), ())
    assert ids_of(lake, "others") == [4, 4]
    assert len(lake.rows("others_changes")) == 2


@pytest.mark.parametrize("is_overdue", [False, True], ids=["while it is waited for", "behind patience"])
def test_a_row_that_comes_late_for_a_table_that_nobody_watched_is_taken_once_it_is_declared(
    tmp_path: Path, is_overdue: bool
) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    sent = insert_both(made, 1000)
    of_other = [message for message in sent.rows if "APP.OTHER" in message[0]]
    assert sent.metadata is not None and of_other
    cycle(lake, producer, [message for message in sent.rows if message not in of_other] + [sent.metadata])
    assert ids_of(lake, "t") == [1]
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, OTHER]))
    lake.pipeline = impatient(lake.pipeline) if is_overdue else lake.pipeline
    cycle(lake, producer, (), ())
    assert needing(lake) == ([(f.INCOMPLETE, "other", 1000)] if is_overdue else [])
    for _ in range(2):
        cycle(lake, producer, of_other)
        assert (ids_of(lake, "t"), ids_of(lake, "other")) == ([1], [1])
    assert needing(lake) == [] and not lake.rows("pending_transactions")


def test_the_story_of_a_row_says_what_its_history_lacks(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    cycle(lake, producer, messages(insert(made, 1000, PLAIN, 1), insert(made, 1010, OTHER, 2)))
    lake.forget()
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, OTHER]))
    cycle(lake, producer, messages(insert(made, 1020, OTHER, 3)))

    def said() -> tuple[str, list[str]]:
        story = key_story(lake.pipeline, lake.warehouse, "other", {"id": "3"})
        console = Console(file=StringIO(), width=200)
        console.print(Group(*explain.key(story)))
        return console.file.getvalue(), list(story.lacking)

    text, lacks = said()
    assert lacks == [each for each in lacks if "The history of other is not complete: of 1 transactions" in each] != []
    assert lacks[0] in text
    folder = tmp_path / "loads" / "other"
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row(number, 'a'))}\n" for number in (2, 3)))
    lake.step(load_snapshot, lake.session, Snapshot(str(folder.parent), 1020))
    cycle(lake, producer, ())
    assert said()[1] == ["The history of other has no change below csn 1020."]


@pytest.mark.parametrize("incomplete", ["publish_without", "hold"])
def test_a_finding_of_a_table_that_is_not_complete_names_what_readers_do_not_see(
    tmp_path: Path, incomplete: str
) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    cycle(lake, producer, messages(insert(made, 1000, PLAIN, 1), insert(made, 1010, OTHER, 2)))
    lake.forget()
    text = declared(tmp_path, made, [PLAIN, OTHER]).read_text()
    documents = "  aggregates:\n    - name: doc\n      root: other\n      children: []\n"
    (tmp_path / "workload.yaml").write_text(
        text.replace("targets:\n", f"targets:\n  incomplete: {incomplete}\n") + documents
    )
    lake.pipeline = load(tmp_path / "workload.yaml")
    cycle(lake, producer, messages(insert(made, 1020, OTHER, 3)))
    (finding,) = [row for row in findings.open_findings(lake.paths) if row["code"] == f.INCOMPLETE]
    assert "csn 1010" in finding["evidence"]
    is_held = incomplete == "hold"
    effect = (
        "no cut is published until doc_current, other can be shown" if is_held else "cuts leave out doc_current, other"
    )
    assert effect in finding["evidence"]
    newest = cuts(lake.pipeline, lake.warehouse).rows[0]
    assert newest["left_out"] == ["doc_current", "other"] and newest["cut_id"] == (1 if is_held else 2)
    about = facts(lake.pipeline, lake.paths, datetime.now(UTC))
    assert about.held == (["doc_current", "other"] if is_held else ())


def test_a_transaction_without_a_watched_row_holds_nothing_back(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/mysql", PLAIN, GTIDS, more=[OTHER])
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    alone = insert(made, 990, OTHER, 1)
    cycle(lake, producer, messages(alone))
    assert lake.rows("cuts") == []
    first, late, other = insert(made, 1000, PLAIN, 1), insert(made, 1010, PLAIN, 2), insert(made, 1020, OTHER, 3)
    assert late.metadata is not None
    cycle(lake, producer, [*messages(first), late.metadata, *messages(other)])
    assert [each["transaction_id"] for each in lake.rows("pending_transactions")] != []
    assert lake.shown_through() == 1000 and ids_of(lake, "t") == [1]
    cycle(lake, producer, late.rows)
    assert lake.shown_through() == 1010 and ids_of(lake, "t") == [1, 2]


def ids_of(lake: SmallLake, current: str) -> list[int]:
    return sorted(each["id"] for each in lake.rows(current))


@pytest.mark.long
@pytest.mark.parametrize("source", ["debezium/mysql", "debezium/postgresql"])
@pytest.mark.parametrize("table", [OTHER, replace(OTHER, key=())], ids=["with a key", "without a key"])
def test_a_table_that_was_left_out_while_a_snapshot_was_taken_again_has_its_rows_alone(
    tmp_path: Path, source: str, table: Table
) -> None:
    lake, made, producer = lake_of(tmp_path, source, PLAIN, more=[table])
    state: State = {"t": rows_of(PLAIN, row(1, "a")), "other": rows_of(table, row(5, "x"), row(6, "y"))}
    cycle(lake, producer, flat(taken(made, 1000, state)), ())
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    again: State = {"t": rows_of(PLAIN, row(1, "b")), "other": rows_of(table, row(6, "z"), row(7, "n"))}
    cycle(lake, producer, flat(taken(made, 2000, again)), ())
    assert lake.shown_through() == 2000
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, table]))
    cycle(lake, producer, ())
    assert ids_of(lake, "other") == [6, 7]
    renamed = replace(table, name="others")
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, renamed]))
    cycle(lake, producer, (), messages(inserted(made, 3000, again, row(9, "end"))), ())
    assert ids_of(lake, "others") == [6, 7]
    assert needing(lake) == []


def test_a_table_that_a_snapshot_replaced_is_not_emptied_once_more_when_its_messages_are_gone(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/mysql", PLAIN)
    cycle(lake, producer, messages(insert(made, 1000, PLAIN, 1)))
    cycle(lake, producer, flat(taken(made, 2000, {"t": rows_of(PLAIN, row(2, "b"))})), ())
    lake.forget()
    lake.pipeline = load(declared(tmp_path, made, [replace(PLAIN, name="renamed")]))
    cycle(lake, producer, ())
    assert [each["csn"] for each in lake.rows("change_events") if each["op"] == "T"] == [2000]
    assert f.READ_AGAIN not in [code for code, *_ in needing(lake)]


@pytest.mark.parametrize("source", ["debezium/mysql", "debezium/postgresql"])
def test_a_table_that_was_left_out_during_the_first_snapshot_has_its_rows_alone(tmp_path: Path, source: str) -> None:
    lake, made, producer = lake_of(tmp_path, source, PLAIN, more=[OTHER])
    cycle(lake, producer, messages(*(insert(made, 1000 + n, OTHER, n) for n in (5, 6))))
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    state: State = {"t": rows_of(PLAIN, row(1, "b")), "other": rows_of(OTHER, row(6, "z"), row(7, "n"))}
    cycle(lake, producer, flat(taken(made, 2000, state)), (), messages(inserted(made, 3000, state, row(9, "end"))))
    assert lake.shown_through() == 3000
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, OTHER]))
    cycle(lake, producer, (), ())
    assert ids_of(lake, "other") == [6, 7]
    assert needing(lake) == []


def test_a_table_that_a_snapshot_of_before_had_no_row_of_is_named_once_it_is_declared(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    state: State = {"t": rows_of(PLAIN, row(1, "a")), "other": rows_of(OTHER, row(5, "x"))}
    cycle(lake, producer, flat(taken(made, 1000, state)), ())
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    cycle(lake, producer, flat(taken(made, 2000, {"t": rows_of(PLAIN, row(1, "b"))})), ())
    assert needing(lake) == []
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, OTHER]))
    cycle(lake, producer, ())
    assert needing(lake) == [(f.READ_AGAIN, "other", 2000)]


def test_a_snapshot_that_was_loaded_under_another_name_of_the_table_is_not_loaded_again(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/mysql", LOG)
    cycle(lake, producer, messages(commit(made, 1000, ("I", None, row(1, "a")), ("I", None, row(1, "a")))))
    for name in ("log", "entries"):
        table = replace(LOG, name=name)
        lake.pipeline = load(declared(tmp_path, made, [table]))
        cycle(lake, producer, ())
        folder = tmp_path / "loads" / name / name
        folder.mkdir(parents=True)
        (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row(1, 'a'))}\n" for _ in range(2)))
        counts = lake.step(load_snapshot, lake.session, Snapshot(str(folder.parent), 1000))
        assert counts == {"skipped": 1, "csn": 1000} if name == "entries" else counts["tables"] == 1
        cycle(lake, producer, ())
        assert ids_of(lake, name) == [1, 1]


@pytest.mark.parametrize("dies", ["after the plan", "after the record"])
def test_a_buffer_that_died_after_it_planned_landings_declares_what_they_decoded_again(
    tmp_path: Path, dies: str
) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    cycle(lake, producer, messages(insert(made, 1000, PLAIN, 1), insert(made, 1010, OTHER, 2)))
    for tables in ([PLAIN], [PLAIN, OTHER]):
        lake.pipeline = load(declared(tmp_path, made, tables))
        lake.land()
    before = declare(lake.pipeline, lake.paths, "died")
    assert before is not None
    plan = str(tmp_path / "plan")
    assert batch_plan.extend(lake.paths, plan) and not batch_plan.extend(lake.paths, plan)
    assert batch_plan.has_redecoded(lake.paths, buffer_state(lake.paths))
    if dies == "after the record":
        declare_redecoded(before, lake.pipeline, lake.paths, "died")
    done = declare_redecoded(before, lake.pipeline, lake.paths, "next")
    known = records.read(lake.paths)
    assert done is not None and done.number == records.newest_number(known) > before.number
    assert [each.pair for each in known if each.status == records.DECLARED] == [("other_changes", "other")]
    lake.buffer()
    assert not batch_plan.has_redecoded(lake.paths, buffer_state(lake.paths))


@pytest.mark.parametrize("as_", ["v: string", "w: {type: string, source: v}"], ids=["its name", "another name"])
@pytest.mark.parametrize("is_sent", [False, True], ids=["while nothing came", "while values came"])
@pytest.mark.parametrize("is_taken_up", [False, True], ids=["ignored", "taken up"])
@pytest.mark.parametrize("called", ["t", "renamed"], ids=["in its table", "in a table of another name"])
def test_a_column_that_was_left_out_has_all_its_values_when_it_is_declared_again(
    tmp_path: Path, as_: str, is_sent: bool, is_taken_up: bool, called: str
) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    whole = declared(tmp_path, made, [PLAIN]).read_text()
    whole = whole.replace("- table: t\n", "- {table: t, current: t, history: t_changes}\n")
    assert "v: string" in whole and "history:" in whole

    def declare_as(text: str) -> None:
        (tmp_path / "workload.yaml").write_text(text)
        lake.pipeline = load(tmp_path / "workload.yaml")

    cycle(lake, producer, messages(commit(made, 1000, ("I", None, row(1, "a")), ("I", None, row(2, "b")))))
    if not is_taken_up:
        # Its history has what the messages had.
        lake.forget()
    kept = "undeclared_columns: evolve" if is_taken_up else "undeclared_columns: ignore"
    declare_as(whole.replace("      v: string\n", "").replace("    key: [id]\n", f"    key: [id]\n    {kept}\n"))
    cycle(lake, producer, ())
    if is_sent:
        cycle(lake, producer, messages(commit(made, 1010, ("U", row(2, "b"), row(2, "c")))))
    again = whole.replace("v: string", as_).replace("- name: t\n", f"- name: {called}\n")
    declare_as(again.replace("{table: t,", f"{{table: {called},"))
    cycle(lake, producer, ())
    name = as_.partition(":")[0]
    shown = {each["id"]: each[name] for each in lake.rows("t")}
    assert shown == {1: "a", 2: "c" if is_sent else "b"}
    was = read.as_of(lake.pipeline, "t", csn=1000, warehouse=lake.warehouse).to_pylist()
    assert {each["id"]: each[name] for each in was} == {1: "a", 2: "b"}


def test_a_key_that_is_edited_there_and_back_between_merges_leaves_each_change_once(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    text = declared(tmp_path, made, [PLAIN]).read_text().partition("targets:")[0]
    text += "targets:\n  aggregates:\n    - name: doc\n      root: t\n      children: []\n"

    def declare_key(key: str) -> None:
        (tmp_path / "workload.yaml").write_text(text.replace("key: [id]", f"key: {key}"))
        lake.pipeline = load(tmp_path / "workload.yaml")

    declare_key("[id]")
    cycle(lake, producer, messages(insert(made, 1000, PLAIN, 1)))
    declare_key("[v]")
    producer.deliver(messages(commit(made, 1010, ("I", None, row(2, "b")))))
    lake.land()
    lake.buffer()
    declare_key("[id]")
    cycle(lake, producer, ())
    assert needing(lake) == []
    assert sorted(each["_txloom_csn"] for each in lake.rows("doc_stream")) == [1000, 1010]
    assert ids_of(lake, "doc_current") == [1, 2]


def test_a_column_that_was_left_out_before_its_table_got_another_name_has_all_its_values(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    whole = declared(tmp_path, made, [PLAIN]).read_text()
    whole = whole.replace("- table: t\n", "- {table: t, current: t, history: t_changes}\n")
    renamed = whole.replace("- name: t\n", "- name: other\n").replace("{table: t,", "{table: other,")
    cycle(lake, producer, messages(insert(made, 1000, PLAIN, 1)))
    for number, text in enumerate((whole, renamed), 2):
        (tmp_path / "workload.yaml").write_text(text.replace("      v: string\n", ""))
        lake.pipeline = load(tmp_path / "workload.yaml")
        cycle(lake, producer, messages(insert(made, 1000 * number, PLAIN, number)))
    (tmp_path / "workload.yaml").write_text(renamed)
    lake.pipeline = load(tmp_path / "workload.yaml")
    cycle(lake, producer, ())
    assert {each["id"]: each["v"] for each in lake.rows("t")} == {1: "a", 2: "a", 3: "a"}


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "copied"])
def test_a_snapshot_that_began_before_a_history_was_declared_does_not_complete_it(
    tmp_path: Path, is_lost: bool
) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN)
    text = declared(tmp_path, made, [PLAIN]).read_text()

    def declare_documents(name: str) -> None:
        targets = f"targets:\n  aggregates:\n    - name: {name}\n      root: t\n      children: []\n"
        (tmp_path / "workload.yaml").write_text(text.partition("targets:")[0] + targets)
        lake.pipeline = load(tmp_path / "workload.yaml")

    declare_documents("doc")
    *first, last = flat(taken(made, 1000, {"t": rows_of(PLAIN, row(1, "a"), row(2, "b"))}))
    cycle(lake, producer, first)
    lake.forget()
    declare_documents("twin")
    if is_lost:
        rmtree(lake.paths.table("doc_stream"))
    cycle(lake, producer, [last], ())
    assert [code for code, *_ in needing(lake)] == [f.INCOMPLETE] * is_lost
    assert any(cut["versions"] for cut in lake.rows("cuts")) == (not is_lost)
    if not is_lost:
        assert sorted((each["id"], each["v"]) for each in lake.rows("twin_current")) == [(1, "a"), (2, "b")]


def test_a_history_that_a_connectors_snapshot_completes_names_it_as_the_reason(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/postgresql", PLAIN, more=[OTHER])
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    cycle(lake, producer, messages(insert_both(made, 1000)))
    lake.forget()
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, OTHER]))
    cycle(lake, producer, messages(insert(made, 1010, PLAIN, 2)))
    assert [code for code, *_ in needing(lake)] == [f.INCOMPLETE]
    state = {"t": rows_of(PLAIN, row(1, "a"), row(2, "a")), "other": rows_of(OTHER, row(1, "a"))}
    cycle(lake, producer, flat(taken(made, 2000, state)), messages(insert(made, 2010, PLAIN, 3)))
    assert needing(lake) == []
    newest = records.states(records.read(lake.paths))["other_changes", "other"].newest
    assert (newest.status, newest.reason, newest.since_csn) == (records.COMPLETE, records.FROM_CONNECTOR, 2000)
