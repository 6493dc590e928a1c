"""The last look: what a browser's cookie makes of pages that are opened one after the other."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txloom.page.last_look import FIRST, LONGEST, PAUSE, look, marked

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_a_page_that_is_loaded_again_shows_the_same_changes() -> None:
    first = look(look(None, NOON - timedelta(hours=3)).to_cookie(), NOON)
    again = look(first.to_cookie(), NOON + PAUSE)
    assert (first.since, again.since, first.is_first, again.is_first) == (NOON - timedelta(hours=3),) * 2 + (False,) * 2


def test_after_a_pause_changes_are_shown_since_the_end_of_the_look_before() -> None:
    seen = look(look(None, NOON).to_cookie(), NOON + timedelta(minutes=9))
    later = look(seen.to_cookie(), NOON + timedelta(hours=5))
    assert later.since == NOON + timedelta(minutes=9)


def test_who_marks_all_as_seen_sees_only_what_comes_later() -> None:
    assert look(marked(NOON).to_cookie(), NOON + timedelta(seconds=5)).since == NOON


@pytest.mark.parametrize("cookie", [None, "", "1", "a-b", "5-4", "99999999999-99999999999", "-1-2", "1-2-3", "1 - 2"])
def test_a_browser_that_never_looked_or_sends_nonsense_sees_a_day(cookie: str | None) -> None:
    shown = look(cookie, NOON)
    assert (shown.since, shown.seen, shown.is_first) == (NOON - FIRST, NOON, True)


def test_the_first_look_stays_the_first_until_it_is_over() -> None:
    first = look(None, NOON)
    again = look(first.to_cookie(), NOON + timedelta(minutes=5))
    later = look(again.to_cookie(), NOON + timedelta(hours=1))
    assert (again.is_first, again.since) == (True, NOON + timedelta(minutes=5) - FIRST)
    assert (later.is_first, later.since) == (False, NOON + timedelta(minutes=5))


def test_nobody_sees_changes_of_years() -> None:
    assert look("0-60", NOON).since == NOON - LONGEST


@given(st.lists(st.integers(0, 7_200), min_size=1, max_size=20))
def test_between_two_looks_no_moment_is_passed_over(pauses: list[int]) -> None:
    cookie, at, shown_until = None, NOON, None
    for pause in pauses:
        at += timedelta(seconds=pause)
        shown = look(cookie, at)
        if shown_until is not None:
            assert shown.since <= shown_until, "what came after the page before is shown by this one"
        cookie, shown_until = shown.to_cookie(), at
