"""The order of a member's changes in a row of an aggregate's history."""

import json
from itertools import permutations

import pyarrow as pa

from events.images.test_reader import table
from txloom.config.models.pipeline import Aggregate
from txloom.events.images.reader import ImageReader
from txloom.history.aggregate_stream import stream

TABLE = table("string")
DOCUMENT = Aggregate(name="doc", root="t")
PLACES = ((1, 1, 0), (2, 1, 4), (2, 2, 1), (2, 2, 3), (3, 1, 2))
"""Each change's position in the transaction, landing and row; three changes have the same position."""


def test_changes_at_one_position_are_listed_in_the_order_in_which_they_were_landed() -> None:
    for order in permutations(PLACES):
        read = ImageReader(TABLE).read(
            [json.dumps({"op_type": "I", "after": {"K": 1, "V": str(each)}}) for each in order]
        )
        count = len(order)
        read = read.append_column("op", pa.array(["I"] * count)).append_column("tx", pa.array([1] * count))
        read = read.append_column("xid", pa.array(["a"] * count)).append_column("csn", pa.array([7] * count))
        read = read.append_column("committed_at", pa.nulls(count, pa.timestamp("us", "UTC")))
        for number, name in enumerate(("pos", "landing", "row")):
            read = read.append_column(name, pa.array([each[number] for each in order]))
        (row,) = stream({"t": read}, DOCUMENT, {"t": TABLE}, 1).to_pylist()
        assert [each["v"] for each in row["t"]] == [str(each) for each in PLACES]
