"""How far partitions are together, where some are silent."""

from txloom.transactions.events import NOWHERE
from txloom.transactions.low_watermark import LowWatermark, Partition, low_watermark


def test_partitions_that_are_all_silent_are_together_as_far_as_the_farthest() -> None:
    partitions = [Partition(7, 0), Partition(9, 0), Partition(None, 0)]
    assert low_watermark(partitions, 100, 10, inclusive=False) == LowWatermark(9)
    assert low_watermark([Partition(None, 0)], 100, 10, inclusive=False) == LowWatermark(NOWHERE)


def test_what_a_silent_partition_could_not_read_may_lie_up_to_where_all_are() -> None:
    silent, busy = Partition(5, 0, unreadable_since=5), Partition(20, 99)
    reached = low_watermark([silent, busy], 100, 10, inclusive=False)
    assert (reached.csn, list(reached.unreadable_ranges)) == (19, [(5, 19)])
