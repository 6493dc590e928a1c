"""The life of incidents: each channel hears once that it began and once that it ended."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.quality.incident_lifecycle import (
    CLAIM,
    CLOSED,
    KEPT,
    OPENED,
    Due,
    IncidentLifecycle,
    claimed,
    due,
    judged,
    noted,
)
from txloom.quality.incidents import Incident
from txloom.quality.messages import message

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CHANNELS = ("log", "webhook")


def incident(kind: str, what: str = "It is wrong.") -> Incident:
    return Incident(kind, "", NOON, "error", what, "Repair it.")


@dataclass
class World:
    """A table of episodes, a clock, and all that channels heard."""

    episodes: list[IncidentLifecycle] = field(default_factory=list)
    now: datetime = NOON
    heard: list[tuple[str, str, str]] = field(default_factory=list)
    senders: int = 0

    def run(self, wrong: set[str], *, dies: bool = False, down: frozenset[str] = frozenset()) -> None:
        """Judge, claim, send, note; dies: between sending and noting."""
        self.senders += 1
        me = f"sender {self.senders}"
        self.now += timedelta(minutes=5)
        after = judged(self.episodes, [incident(kind) for kind in sorted(wrong)], kinds=("a", "b"), now=self.now)
        self.episodes = claimed(after, CHANNELS, by=me, now=self.now)
        mine = [each for episode in self.episodes if episode.claimed_by == me for each in due(episode, CHANNELS)]
        sent = [each for each in mine if each.channel not in down]
        self.heard += [(message("shop", each, "").id, each.channel, each.event) for each in sent]
        if not dies:
            self.episodes = noted(self.episodes, sent, CHANNELS, by=me)


states = st.lists(st.sets(st.sampled_from(["a", "b"])), max_size=12)


@given(states)
def test_any_sequence_of_states_sends_one_opening_and_one_closing_for_each_incident(sequence: list[set[str]]) -> None:
    world, began, ended, before = World(), 0, 0, set()
    for wrong in sequence:
        world.run(wrong)
        world.run(wrong)
        began, ended, before = began + len(wrong - before), ended + len(before - wrong), wrong
    assert max(Counter(world.heard).values(), default=1) == 1
    events = Counter((channel, event) for _, channel, event in world.heard)
    assert all(events[channel, OPENED] == began for channel in CHANNELS)
    assert all(events[channel, CLOSED] == ended for channel in CHANNELS)


@given(st.lists(st.tuples(st.sets(st.sampled_from(["a", "b"])), st.booleans(), st.sampled_from([(), ("webhook",)]))))
def test_senders_that_die_and_channels_that_are_down_lose_no_message(
    sequence: list[tuple[set[str], bool, tuple[str, ...]]],
) -> None:
    world, began, ended, before = World(), 0, 0, set()
    for wrong, dies, down in sequence:
        world.run(wrong, dies=dies, down=frozenset(down))
        began, ended, before = began + len(wrong - before), ended + len(before - wrong), wrong
    for _ in range(2):
        world.run(before)
    heard_by_all = set(world.heard)
    for channel in CHANNELS:
        assert sum(1 for _, heard, event in heard_by_all if (heard, event) == (channel, OPENED)) == began
        assert sum(1 for _, heard, event in heard_by_all if (heard, event) == (channel, CLOSED)) == ended
    deaths = sum(dies for _, dies, _ in sequence)
    again = [count for count in Counter(world.heard).values() if count > 1]
    assert max(again, default=1) <= deaths + 1
    if not deaths:
        assert not again
    for channel in CHANNELS:
        mine = [(one.rsplit("/", 1)[0], event) for one, heard, event in world.heard if heard == channel]
        assert all(mine.index((name, OPENED)) < mine.index((name, CLOSED)) for name, event in mine if event == CLOSED)


def test_the_second_of_two_runs_that_meet_sends_nothing() -> None:
    opened = judged([], [incident("a")], kinds=("a",), now=NOON)
    first = claimed(opened, CHANNELS, by="first", now=NOON)
    second = claimed(judged(first, [incident("a")], kinds=("a",), now=NOON), CHANNELS, by="second", now=NOON)
    assert [each.claimed_by for each in second] == ["first"]
    late = claimed(second, CHANNELS, by="second", now=NOON + CLAIM + timedelta(seconds=1))
    assert [each.claimed_by for each in late] == ["second"]


def test_an_open_incident_keeps_its_beginning_and_takes_the_newest_state() -> None:
    (first,) = judged([], [incident("a")], kinds=("a",), now=NOON)
    newer = replace(incident("a", "It is worse."), since=NOON + timedelta(hours=1))
    (after,) = judged([first], [newer], kinds=("a",), now=NOON + timedelta(hours=1))
    assert after == replace(first, incident=replace(newer, since=NOON))


def test_what_is_not_judged_stays_as_it_is() -> None:
    (task,) = judged([], [incident("failed task")], kinds=("failed task",), now=NOON)
    assert judged([task], [], kinds=("a",), now=NOON) == [task]


def test_who_did_not_hear_the_opening_of_what_is_over_hears_of_it_no_more() -> None:
    (episode,) = judged([], [incident("a")], kinds=("a",), now=NOON)
    (closed,) = judged([episode], [], kinds=("a",), now=NOON)
    messages_due = [Due(closed, event, channel) for channel in CHANNELS for event in (OPENED, CLOSED)]
    (over,) = noted([closed], messages_due, CHANNELS, by="me")
    assert (over.is_over, due(over, [*CHANNELS, "email"])) == (True, [])


def test_a_clock_that_was_set_back_gives_no_two_incidents_one_id() -> None:
    world = World()
    for wrong in ({"a"}, set(), {"a"}, set()):
        world.run(wrong)
        world.now -= timedelta(hours=1)
    assert len({one for one, _, _ in world.heard}) == 4


@pytest.mark.long
def test_only_the_newest_that_are_over_are_kept() -> None:
    world = World()
    for _ in range(KEPT + 3):
        world.run({"a"})
        world.run(set())
    assert len(world.episodes) == KEPT
    assert world.episodes[-1].closed_at == world.now


def test_a_message_says_what_since_which_rows_what_to_do_and_where() -> None:
    wrong = Incident("stuck", "x", NOON, "warn", "12 wait.", "Look there.", 12, ("one", "two"), "dags/shop_cdc")
    episode = IncidentLifecycle(wrong, NOON + timedelta(minutes=1))
    text = message("shop", Due(episode, OPENED, "log"), "http://airflow/")
    assert text.text == (
        "[txloom] shop: stuck (x)\nWhat: 12 wait.\nSince: 2026-01-01 12:00:00 UTC\nRows: 12, the first 2:\n"
        "- one\n- two\nDo: Look there.\nLink: http://airflow/dags/shop_cdc"
    )
    assert text.id == "shop/stuck/x/2026-01-01T12:01:00+00:00/opened"
    closed = replace(episode, closed_at=NOON + timedelta(hours=1))
    assert message("shop", Due(closed, CLOSED, "log"), "").text == (
        "[txloom] shop: stuck (x) is over\nWhat: 12 wait.\nSince: 2026-01-01 12:00:00 UTC\n"
        "Over: 2026-01-01 13:00:00 UTC"
    )
