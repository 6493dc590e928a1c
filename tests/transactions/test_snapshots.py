"""Snapshots that come over partitions and landings in any way: nothing of one is let through before all of it came."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from txloom.transactions.events import NOWHERE
from txloom.transactions.snapshots import Shown, Snapshots, advanced

ROW, LAST, STREAM = "row", "last", "stream"


@dataclass(frozen=True, eq=False)
class Sent:
    """One event, in the order in which the connector sent it."""

    kind: str
    csn: int
    partition: int
    again: bool = False


def sent_by_a_connector(chance: Random) -> list[Sent]:
    """Return what a connector sends: snapshots, some given up and begun anew at a higher csn, and streams behind them.

    The row that ends a snapshot may be lost to a filter, where a stream follows. Anything may be delivered again.
    """
    sent, csn = list[Sent](), 0
    for number in range(snapshots := chance.randint(1, 3)):
        csn += chance.randint(1, 5)
        sent += [Sent(ROW, csn, chance.randrange(4)) for _ in range(chance.randint(1, 12))]
        is_given_up = number < snapshots - 1 and chance.random() < 0.4
        streams = 0 if is_given_up else chance.randint(0, 4)
        if not is_given_up and (streams == 0 or chance.random() < 0.7):
            sent.append(Sent(LAST, csn, chance.randrange(4)))
        for _ in range(streams):
            csn += chance.randint(1, 3)
            sent.append(Sent(STREAM, csn, chance.randrange(4)))
        if chance.random() < 0.3:
            sent += [Sent(each.kind, each.csn, each.partition, again=True) for each in chance.sample(sent, 1)]
    return sent


def landings(sent: Sequence[Sent], chance: Random) -> Iterator[tuple[list[Sent], bool]]:
    """Yield what each landing takes, and whether it takes everything.

    What was sent until the landing before was over is there when the next one is planned; of what was sent since, each
    partition shows more or less. A landing that is cut short takes less of each. The last two find nothing new.
    """
    taken, over = [0] * 4, 0
    while min(taken) < len(sent):
        now = chance.randint(over, len(sent))
        cut = chance.random() < 0.3
        reached = [chance.randint(done if cut else max(done, over), max(done, now)) for done in taken]
        yield (
            [each for number, each in enumerate(sent) if taken[each.partition] <= number < reached[each.partition]],
            not cut,
        )
        taken, over = reached, max(over, now)
    yield from (([], True), ([], True))


def shown(landing: Sequence[Sent]) -> Shown:
    rows = [each.csn for each in landing if each.kind != STREAM]
    return Shown(
        len(rows),
        min(rows, default=None),
        max(rows, default=None),
        max((each.csn for each in landing if each.kind == LAST), default=NOWHERE),
        max((each.csn for each in landing if each.kind == STREAM), default=NOWHERE),
    )


def lets_through(after: Snapshots, csn: int) -> bool:
    return after.bound is None or csn <= after.bound


@given(st.integers(0, 2**64 - 1))
def test_nothing_of_a_snapshot_is_let_through_before_all_of_it_was_landed(seed: int) -> None:
    chance = Random(seed)
    sent, landed, state, through = sent_by_a_connector(chance), list[Sent](), Snapshots(), set[int]()
    for taken, everything in landings(sent, chance):
        state = advanced(state, shown(taken), everything=everything)
        landed += taken
        heard = {each.csn for each in landed if each.kind != STREAM}
        lacking = {each.csn for each in sent if each.kind != STREAM and not each.again and each not in landed}
        let = {csn for csn in heard if lets_through(state, csn)}
        assert not let & lacking - through, "a snapshot is shown in part"
        assert through <= let, "what was shown is hidden again"
        through = let
    assert len(landed) == len(sent)
    assert state.bound is None
    assert not state.is_ending


def test_a_row_that_was_in_flight_when_the_last_one_was_read_is_waited_for_by_one_more_landing() -> None:
    first = advanced(Snapshots(), Shown(2, 40, 40, last=40), everything=True)
    assert (first.bound, first.is_ending) == (39, True)
    cut_short = advanced(first, Shown(3, 40, 40), everything=False)
    assert (cut_short.bound, cut_short.rows) == (39, 5)
    whole = advanced(cut_short, Shown(1, 40, 40), everything=True)
    assert (whole.bound, whole.rows, whole.is_ending) == (None, 0, False)
    late = advanced(whole, Shown(1, 40, 40), everything=True)
    assert late.bound is None


def test_a_snapshot_that_began_anew_closes_the_one_that_was_given_up() -> None:
    given_up = advanced(Snapshots(), Shown(5, 40, 40), everything=True)
    anew = advanced(given_up, Shown(9, 50, 50, last=50), everything=True)
    assert (given_up.bound, given_up.is_ending, anew.bound, anew.rows) == (39, False, 39, 14)
    assert advanced(anew, Shown(), everything=True).bound is None


def test_a_stream_at_the_csn_of_a_snapshot_does_not_end_it_and_one_behind_it_does() -> None:
    begun = advanced(Snapshots(), Shown(1, 40, 40, stream=40), everything=True)
    assert advanced(begun, Shown(), everything=True).bound == 39
    behind = advanced(begun, Shown(stream=41), everything=True)
    assert (behind.bound, advanced(behind, Shown(), everything=True).bound) == (39, None)


def test_what_ended_one_snapshot_lets_its_own_csn_through_and_no_later_one() -> None:
    both = advanced(Snapshots(), Shown(2, 40, 60, last=40), everything=True)
    assert (both.bound, advanced(both, Shown(), everything=True).bound) == (39, 40)
