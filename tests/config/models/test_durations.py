"""Durations and schedules."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st

from txloom.config.models.cron import DAYS, MONTHS, PRESETS, parse_cron
from txloom.config.models.durations import parse_duration, show_duration
from txloom.config.problems import Unfit


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("30s", 30), ("15m", 900), ("2h", 7200), ("7d", 604_800), ("007m", 420)]
)
def test_a_duration_is_a_number_and_its_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "30", "m", "1.5h", "1h30m", "-1s", "+1s", "1 h", "1M", "1w", "٣m", "9999999s", "1s\n", " 1s", "PT1H"]
)
def test_any_other_text_is_no_duration(text: str) -> None:
    with pytest.raises(Unfit):
        parse_duration(text)


@given(st.integers(0, 999_999).map(lambda seconds: timedelta(seconds=seconds)))
def test_a_duration_survives_being_shown(duration: timedelta) -> None:
    assert parse_duration(show_duration(duration)) == duration


@pytest.mark.parametrize("schedule", [*PRESETS, "0 3 * * *", "*/5 8-18 * * MON-fri", "0 0 29 2 *", "0 0 31 1,3 0,7"])
def test_what_cron_says_is_a_schedule(schedule: str) -> None:
    assert parse_cron(schedule) == schedule


@pytest.mark.parametrize(
    "schedule",
    [
        5,
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "1,,2 * * * *",
        "a * * * *",
        "0 0 31 2,4 *",
        "-5 * * * *",
        "² * * * *",
        "@once",
        "@Daily",
    ],
)
def test_any_other_value_is_no_schedule(schedule: Any) -> None:
    with pytest.raises(Unfit):
        parse_cron(schedule)


def field(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    number = st.integers(low - 1, high + 1).map(str)
    one = st.one_of(st.just("*"), number, st.sampled_from(names) if names else number)
    spans = st.tuples(number, number).map("-".join)
    steps = st.tuples(st.one_of(st.just("*"), spans), st.integers(0, high).map(str)).map("/".join)
    return st.lists(st.one_of(one, spans, steps), min_size=1, max_size=3).map(",".join)


@given(st.tuples(field(0, 59), field(0, 23), field(1, 31), field(1, 12, MONTHS), field(0, 7, DAYS)).map(" ".join))
def test_what_we_take_for_a_schedule_is_one_to_airflow_and_comes_to_pass(schedule: str) -> None:
    try:
        parse_cron(schedule)
    except Unfit:
        return
    assert croniter(schedule, datetime(2025, 1, 1, tzinfo=UTC)).get_next(datetime)
