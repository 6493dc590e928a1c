"""What history holds of a change: the row after it, and for a delete what is known of the row before it."""

import json
from typing import Any

import pyarrow as pa
import pytest

from events.images.test_reader import table
from txloom.events.images.reader import ImageReader
from txloom.history.changes import images

TABLE = table("string")


def held(op: str, **given_images: dict[str, Any]) -> tuple[Any, ...]:
    """Return (k, v) as history holds them of a message."""
    rows_held = ImageReader(TABLE).read([json.dumps({"op_type": op, **given_images})])
    rows_held = rows_held.append_column("op", pa.array([op]))
    return tuple(column[0].as_py() for column in images(rows_held, TABLE).values())


def test_an_insert_holds_the_new_row() -> None:
    assert held("I", after={"K": 1, "V": "new"}) == (1, "new")


def test_an_update_holds_the_new_row_and_nothing_of_the_old_one() -> None:
    assert held("U", before={"K": 1, "V": "old"}, after={"K": 2, "V": None}) == (2, None)


def test_a_delete_holds_what_is_known_of_the_row() -> None:
    assert held("D", before={"K": 1, "V": "old"}) == (1, "old")


@pytest.mark.parametrize("left_out", ["V", "K"])
def test_an_update_that_leaves_out_its_key_is_of_the_old_one(left_out: str) -> None:
    after = {"K": 1, "V": "new"}
    del after[left_out]
    assert held("U", before={"K": 1, "V": "old"}, after=after) == (1, None if left_out == "V" else "new")
