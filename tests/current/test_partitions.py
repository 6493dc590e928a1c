"""The partition that a value lies in, by its declared unit."""

from datetime import UTC, date, datetime

import pyarrow as pa

from txloom.current.partitions import partition_of

MOMENT = datetime(2026, 11, 24, 23, 59, 59, tzinfo=UTC)


def test_a_day_is_one_of_a_date_or_of_a_moment() -> None:
    days = pa.chunked_array([[date(2026, 11, 24), None]])
    assert partition_of(days, "day").to_pylist() == [date(2026, 11, 24), None]
    moments = pa.chunked_array([pa.array([MOMENT, None], pa.timestamp("us", "UTC"))])
    assert partition_of(moments, "day").to_pylist() == [date(2026, 11, 24), None]


def test_a_value_is_its_own_partition_but_a_text_that_no_folder_can_be_named_by() -> None:
    assert partition_of(pa.chunked_array([[7, None]]), None).to_pylist() == [7, None]
    assert partition_of(pa.chunked_array([["a", "", None]]), None).to_pylist() == ["a", None, None]
