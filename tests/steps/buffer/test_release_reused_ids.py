"""PostgreSQL's transaction ids come back, after a wrap-around or a restore: csn and id together name a transaction."""

from pathlib import Path

import pytest

from buffered import Buffered, no_spark
from called import step_of
from steps.merge.test_merge_current_keyless import declared, end, row, send
from txloom.config import load
from txloom.steps.landing.land_events import land_events
from txloom.transactions import buffer


def copied(lsn: int, *notes: str, xid: int = 7) -> list[dict[str, object]]:
    return [row("notes", {"note": note}, lsn, number, xid=xid) for number, note in enumerate(notes, 1)]


@pytest.fixture(params=["forgotten", "remembered"])
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Buffered:
    """Return a shop that has released transaction 7 and may have forgotten it, while transaction 8 before it waits."""
    made = Buffered(declared(tmp_path), tmp_path)
    send(made.pipeline, 1, *copied(50, "old"), end(60, notes=1), *copied(52, "waits", xid=8))
    made.run()
    if request.param == "forgotten":
        made.held = {bucket: buffer.Held(held.events) for bucket, held in made.held.items()}
    return made


def notes(shop: Buffered) -> list[str]:
    return sorted(row["note"] for row in shop.rows("notes"))


def test_another_transaction_of_a_released_ones_xid_is_released_too(shop: Buffered) -> None:
    send(shop.pipeline, 2, end(58, xid=8, notes=1), *copied(150, "new"), end(160, notes=1))
    shop.run()
    assert notes(shop) == ["new", "old", "waits"]
    shop.backfill("rebuild")
    assert shop.backfill("compare") == {}


def test_a_released_transaction_that_is_delivered_again_stays_one(shop: Buffered) -> None:
    send(shop.pipeline, 2, end(58, xid=8, notes=1), *copied(50, "old"), end(60, notes=1))
    shop.run()
    assert notes(shop) == ["old", "waits"]


def test_both_may_be_delivered_again_once_the_second_was_released(shop: Buffered) -> None:
    send(shop.pipeline, 2, end(58, xid=8, notes=1), *copied(150, "new"), end(160, notes=1))
    shop.run()
    send(shop.pipeline, 3, *copied(150, "new"), end(160, notes=1))
    shop.run()
    send(shop.pipeline, 4, *copied(50, "old"), end(60, notes=1))
    shop.run()
    assert notes(shop) == ["new", "old", "waits"]
    assert len(shop.rows("transactions")) == 3


def test_one_batch_releases_both_though_each_changed_another_member_of_an_aggregate(tmp_path: Path) -> None:
    """The history of the first knew no lines, that of the second no items: the batch ended in an error."""
    pipeline = declared(tmp_path)
    file = tmp_path / "shop.yaml"
    aggregate = "{name: doc, root: items, children: [{table: lines, as: lines, relation: many, parent_key: [item]}]}"
    lines = "  - {name: lines, source: public.lines, key: [id], columns: {id: long, item: long}}\n"
    text = file.read_text().replace("targets: {", lines + "targets: {").replace("]}", f"], aggregates: [{aggregate}]}}")
    file.write_text(text)
    shop = Buffered(load(file), tmp_path)
    changed = {"items": {"id": 1, "note": "a"}, "lines": {"id": 1, "item": 1}}
    for number, (table, image) in enumerate(changed.items(), 1):
        send(pipeline, number, row(table, image, 100 * number, 1), end(100 * number + 10, **{table: 1}))
        land_events(step_of(shop.pipeline, shop.warehouse, f"landing-{number}", no_spark))
    shop.run()
    (document,) = shop.rows("doc_current")
    assert (document["id"], [line["id"] for line in document["lines"]]) == (1, [1])
    assert sorted(row["_txloom_csn"] for row in shop.rows(shop.pipeline.targets.aggregates[0].history)) == [
        110,
        210,
    ]
