"""Tables without a key, as Debezium sends them: a row is shown for each that the source has, whatever it says."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from buffered import Buffered, no_spark
from called import step_of
from lake import Lake, leave_to_spark
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError
from txloom.steps.backfill.backfill import backfill
from txloom.steps.merge.merge_current import merge_current
from txloom.storage.targets.row_tables import STATISTICS

DECLARED = """
name: shop
source: {{format: debezium, files: {{path: {inbox}}}, transaction_topic: transaction}}
completeness: {{rule: counts, patience: 2h}}
tables:
  - {{name: notes, source: public.notes, key: none, columns: {{note: string}}}}
  - {{name: items, source: public.items, key: [id], columns: {{id: long, note: string}}}}
targets: {{mirrors: ["*"]}}
"""
Message = dict[str, Any]


def row(table: str, after: Message, lsn: int, number: int | None = None, xid: int = 7) -> Message:
    """Write a row of a snapshot, or the n-th row of a transaction."""
    source: Message = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "lsn": lsn}
    if number is None:
        source["snapshot"] = "true"
        return {"before": None, "after": after, "source": source, "transaction": None, "op": "r"}
    source_fields = {"id": f"{xid}:{lsn}", "total_order": number}
    return {"before": None, "after": after, "source": source, "transaction": source_fields, "op": "c"}


def end(lsn: int, xid: int = 7, **counts: int) -> Message:
    parts = [{"data_collection": f"public.{table}", "event_count": count} for table, count in counts.items()]
    return {"status": "END", "id": f"{xid}:{lsn}", "event_count": sum(counts.values()), "data_collections": parts}


def declared(folder: Path) -> Pipeline:
    (folder / "inbox").mkdir()
    file = folder / "shop.yaml"
    file.write_text(DECLARED.format(inbox=folder / "inbox"))
    return load(file)


def send(pipeline: Pipeline, number: int, *messages: Message) -> None:
    """Put messages into the inbox as one file of each topic."""
    for topic, records_of in (("rows", "op"), ("transaction", "status")):
        lines = [json.dumps(each) for each in messages if records_of in each]
        file = Path(pipeline.source.files.path) / topic / f"{number}.jsonl"
        file.parent.mkdir(exist_ok=True)
        if lines:
            file.write_text("".join(f"{line}\n" for line in lines))


def notes(rows: list[Message]) -> list[str]:
    return sorted(row["note"] for row in rows)


def keys(rows: list[Message]) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in ("_txloom_csn", "_txloom_xid", "_txloom_pos")) for row in rows}


SNAPSHOT = [row("notes", {"note": note}, 40) for note in "aabcd"] + [
    row("items", {"id": n, "note": "x"}, 40) for n in range(3)
]
COPY = [row("notes", {"note": note}, 50, n) for n, note in enumerate("eef", 1)]
FIRST = [*SNAPSHOT, *COPY, end(60, notes=3)]
SHOWN = list("aabcdeef")


@pytest.fixture
def shop(tmp_path: Path) -> Buffered:
    made = Buffered(declared(tmp_path), tmp_path)
    send(made.pipeline, 1, *FIRST)
    made.run()
    made.run()
    return made


def test_each_row_of_a_table_without_a_key_is_shown_once(shop: Buffered) -> None:
    send(shop.pipeline, 2, *COPY, end(60, notes=3))
    shop.run()
    assert notes(shop.rows("notes")) == notes(shop.rows("notes_changes")) == SHOWN
    assert len(keys(shop.rows("notes_changes"))) == len(SHOWN)
    assert (shop.late, shop.dead) == (3, [])


def test_a_backfill_of_a_snapshot_finds_nothing_where_nothing_is_wrong(shop: Buffered) -> None:
    shop.backfill("rebuild")
    assert shop.backfill("compare") == {}


def test_a_backfill_brings_back_the_rows_that_a_table_lacks_and_no_others(shop: Buffered) -> None:
    DeltaTable(shop.paths.table("notes")).delete("note in ('a', 'e')")
    shop.backfill("rebuild")
    assert shop.backfill("compare") == {"changes": 4, "inserts": 4}
    shop.backfill("apply")
    assert notes(shop.rows("notes")) == notes(shop.rows("notes_changes")) == SHOWN


def test_a_backfill_of_rows_that_cannot_be_told_apart_is_refused(shop: Buffered) -> None:
    table = DeltaTable(shop.paths.table("notes_changes"))
    table.update(new_values={"_txloom_pos": 1, "note": "'other'"}, predicate="note = 'e'")
    before = sorted(map(repr, shop.rows("notes_changes")))
    shop.backfill("rebuild")
    with pytest.raises(ConfigurationError, match="notes_changes has several rows with the key _txloom_csn 60"):
        shop.backfill("compare")
    assert sorted(map(repr, shop.rows("notes_changes"))) == before


@pytest.mark.parametrize("lost", ["note <> 'a'", "false"])
def test_a_table_that_an_older_version_wrote_shows_every_row_once(shop: Buffered, lost: str) -> None:
    table = DeltaTable(shop.paths.table("notes"))
    table.delete(lost)
    table.alter.set_table_properties({STATISTICS: "_txloom_csn,_txloom_pos"})
    again = step_of(shop.pipeline, shop.warehouse, "again", no_spark)
    merge_current(again)
    assert notes(shop.rows("notes")) == SHOWN
    version = DeltaTable(shop.paths.table("notes")).version()
    merge_current(again)
    assert DeltaTable(shop.paths.table("notes")).version() == version


NOTES = st.lists(st.sampled_from("ab"), max_size=4)


@settings(max_examples=8, deadline=None)
@given(NOTES, st.lists(NOTES, max_size=3), st.booleans())
def test_any_stream_makes_as_many_rows_as_its_source_has_changes(
    tmp_path_factory: Any, first: list[str], copies: list[list[str]], again: bool
) -> None:
    folder = tmp_path_factory.mktemp("any")
    shop = Buffered(declared(folder), folder)
    rows_sent = [row("notes", {"note": note}, 40) for note in first]
    for number, copy in enumerate(copies, 1):
        lsn = 40 + number * 10
        rows_sent += [row("notes", {"note": note}, lsn, n, xid=number) for n, note in enumerate(copy, 1)]
        rows_sent.append(end(lsn + 5, xid=number, **({"notes": len(copy)} if copy else {})))
    send(shop.pipeline, 1, *rows_sent, end(900, xid=99))
    shop.run()
    if again:
        send(shop.pipeline, 2, *[each for each in rows_sent if each.get("op") != "r"])
    shop.run()
    changes = shop.rows("notes_changes")
    assert notes(changes) == notes(shop.rows("notes")) == sorted([*first, *(note for copy in copies for note in copy)])
    assert len(keys(changes)) == len(changes)
    shop.backfill("rebuild")
    assert shop.backfill("compare") == {}


@pytest.mark.session
def test_the_same_holds_where_spark_lands_merges_and_compares(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_to_spark(monkeypatch)
    lake = Lake(spark, tmp_path, declared(tmp_path))
    send(lake.pipeline, 1, *FIRST)
    lake.run()
    send(lake.pipeline, 2, *COPY, end(60, notes=3))
    lake.run()
    assert notes(lake.rows("notes")) == notes(lake.rows("notes_changes")) == SHOWN
    assert len(keys(lake.rows("notes_changes"))) == len(SHOWN)
    step = step_of(lake.pipeline, lake.warehouse, "b1", lambda: spark)
    backfill(step, "rebuild")
    assert sum(backfill(step, "compare").values()) == 0
