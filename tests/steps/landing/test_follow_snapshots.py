"""Requested snapshots whose tables are edited in the declaration before the rows that the connector read are merged."""

from datetime import timedelta
from pathlib import Path

import pytest

from called import step_of
from steps.settling.edited_shop import LINE, LINES, ORDERS, EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS, fill
from txloom.config.models.source import Signals
from txloom.errors import ConfigurationError
from txloom.steps.merge import merge_current
from txloom.steps.snapshots.request_snapshot import request_snapshot
from txloom.storage.landing import landing_plan, requested_snapshots
from txloom.storage.landing.requested_snapshots import FAILED, LOADED, READ, SENT, Request
from txloom.storage.sources import connector_signals
from txloom.storage.sources.connector_signals import SnapshotState

MIRRORS = [OF_ORDERS, OF_LINES]
RENAMED = {"orders": ORDERS, "lines": {LINE: "{type: long, source: id}", "o_id": "long", "q": "long"}}


@pytest.fixture
def shop(tmp_path: Path) -> EditedShop:
    """Return a shop with a requested snapshot of the lines: the connector read none of the rows that the lake has."""
    shop = EditedShop(tmp_path)
    shop.declare(BOTH, MIRRORS)
    fill(shop)
    paths = shop.lake.paths
    request = Request("read", "asked", ("lines",), shop.csn, landing_plan.newest(paths))
    requested_snapshots.write(paths, request, READ, ends={})
    return shop


def edit(shop: EditedShop, tables: dict[str, dict[str, str]], key: str = "[id]", source: str = "APP.LINES") -> None:
    shop.declare(tables, MIRRORS if "lines" in tables else [OF_ORDERS], keys={"lines": key}, sources={"lines": source})
    topics = {"topic": "signals", "notifications": "notices"}
    signals = Signals(**topics, watermarks="APP.SIGNALS", answer_within=timedelta(hours=1))
    source_of = shop.lake.pipeline.source.model_copy(update={"signals": signals})
    shop.lake.pipeline = shop.lake.pipeline.model_copy(update={"source": source_of})


def newest(shop: EditedShop) -> tuple[str, int]:
    request = requested_snapshots.requests(shop.lake.paths)[0]
    return request.status, request.removed


def test_a_request_waits_until_a_merge_has_renamed_the_key_of_its_table(
    shop: EditedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(shop, RENAMED, f"[{LINE}]")
    with monkeypatch.context() as killed:
        killed.setattr(merge_current, "planned", interrupt)
        with pytest.raises(KeyboardInterrupt):
            shop.run()
    assert newest(shop) == (READ, 0)
    shop.run()
    assert newest(shop) == (READ, 0)
    for _ in range(3):
        shop.run()
    assert newest(shop) == (LOADED, 2)
    assert shop.shown("lines") == []


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("status", [SENT, READ])
@pytest.mark.parametrize(
    ("tables", "key", "source"),
    [
        ({"orders": ORDERS}, "[id]", "APP.LINES"),
        (BOTH, "[id]", "APP.OTHER"),
        (BOTH, "[id, o_id]", "APP.LINES"),
    ],
    ids=["removed", "other source", "other key"],
)
def test_a_request_ends_if_its_table_is_not_declared_as_before(
    shop: EditedShop,
    monkeypatch: pytest.MonkeyPatch,
    tables: dict[str, dict[str, str]],
    key: str,
    source: str,
    status: str,
) -> None:
    (request,) = requested_snapshots.requests(shop.lake.paths)
    requested_snapshots.write(shop.lake.paths, request, status)
    monkeypatch.setattr(connector_signals, "state_of", lambda *_: SnapshotState(is_over=True, tables={}))
    edit(shop, tables, key, source)
    shop.run()
    assert newest(shop) == (FAILED, 0)
    edit(shop, {"orders": ORDERS, "lines": LINES})
    shop.run()
    assert shop.shown("lines") == shop.source("lines")


def test_a_request_is_refused_until_a_landing_has_followed_an_edit(shop: EditedShop) -> None:
    (request,) = requested_snapshots.requests(shop.lake.paths)
    requested_snapshots.write(shop.lake.paths, request, FAILED)
    edit(shop, BOTH, source="APP.OTHER")
    with pytest.raises(ConfigurationError, match=r"edited since the newest landing.*run a cycle, then ask again"):
        request_snapshot(step_of(shop.lake.pipeline, shop.lake.warehouse, "asked"), ["lines"])
