"""The landing that follows an edit says what is decoded again, if anything is."""

from pathlib import Path

import pytest

from steps.settling.edited_shop import ORDERS, EditedShop
from steps.settling.test_settle import BOTH, OF_LINES, OF_ORDERS

SAYS = "messages of undecided transactions are decoded again"


@pytest.mark.parametrize("waits", [True, False], ids=["a transaction waits", "none waits"])
def test_an_edit_logs_messages_only_if_some_are_decoded_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, waits: bool
) -> None:
    shop = EditedShop(tmp_path)
    shop.declare({"orders": ORDERS}, [OF_ORDERS])
    shop.orders(1)
    if waits:
        order = {"id": 8, "total": 8}
        shop.commit(("I", "orders", order), ("I", "lines", {"id": 80, "o_id": 8, "q": 8}), late=["orders"])
    shop.run()
    shop.declare(BOTH, [OF_ORDERS, OF_LINES])
    caplog.clear()
    shop.run()
    assert (SAYS in caplog.text) == waits
    assert f" 0 {SAYS}" not in caplog.text
