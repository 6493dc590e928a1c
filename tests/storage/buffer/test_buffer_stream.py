"""What a bucket releases, packed into one value: whole, and in one piece however many landings it came in."""

import numpy as np
from pyspark.sql import Row

from txloom.storage.buffer import buffer_stream
from txloom.storage.buffer.buffer_stream import RELEASED, RELEASED_ROWS, REPEATED_ROWS
from txloom.transactions import buffer
from txloom.transactions import events as ev

LANDINGS = 5


def decided(bucket: int) -> buffer.Decisions:
    """Return what a bucket decided over several landings, which released a transaction and dropped a duplicate each."""
    decisions = buffer.Decisions()
    for landing in range(LANDINGS):
        values = {name: np.array([1_000 * bucket + 10 * landing + i]) for i, name in enumerate(RELEASED)}
        decisions.released.append(buffer.Released(**values))
        repeated = np.zeros(1, ev.EVENT)
        repeated["tx"], repeated["landing"], repeated["row"] = values["tx"], landing, bucket
        decisions.repeated.append(repeated)
    return decisions


def outcomes(*buckets: int) -> list[Row]:
    """Return the outcomes of some buckets as Spark hands them over: bytes come back as a bytearray."""
    frames = [frame for each in buckets for frame in buffer_stream._rows(each, 0, buffer.Held(), decided(each))]
    rows = [row for frame in frames for row in frame.to_dict("records")]
    return [Row(**{**row, "packed": None if row["packed"] is None else bytearray(row["packed"])}) for row in rows]


def test_what_buckets_release_is_unpacked_as_it_was_decided() -> None:
    released = buffer_stream.packed_rows(outcomes(1, 2), "released", RELEASED_ROWS)
    expected = [
        [1_000 * bucket + 10 * landing + i for bucket in (1, 2) for landing in range(LANDINGS)] for i in range(8)
    ]
    assert released.to_pydict() == dict(zip(RELEASED, expected, strict=True))
    repeated = buffer_stream.packed_rows(outcomes(1, 2), "repeated", REPEATED_ROWS)
    assert repeated.column("tx").to_pylist() == expected[0]
    assert repeated.column("landing").to_pylist() == [*range(LANDINGS)] * 2
    assert repeated.column("row").to_pylist() == [1] * LANDINGS + [2] * LANDINGS


def test_a_bucket_has_one_outcome_for_all_that_it_releases_and_the_driver_one_piece() -> None:
    rows = outcomes(1, 2)
    assert [row["bucket"] for row in rows if row["what"] == "released"] == [1, 2]
    assert buffer_stream.released(decided(1)).column("tx").num_chunks == 1
    assert buffer_stream.packed_rows(rows, "released", RELEASED_ROWS).column("tx").num_chunks == 1


def test_a_bucket_that_releases_nothing_has_nothing_packed() -> None:
    frames = buffer_stream._rows(1, 0, buffer.Held(), buffer.Decisions())
    rows = [Row(**row) for frame in frames for row in frame.to_dict("records")]
    assert {row["what"] for row in rows} == {"counts"}
    assert buffer_stream.packed_rows(rows, "released", RELEASED_ROWS).num_rows == 0
