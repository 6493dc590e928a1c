"""Where the chart's lines and bars lie, and what it says in words."""

from datetime import UTC, datetime, timedelta
from typing import Any

from txloom.page.chart import chart
from txloom.storage.views.pipeline.lag_series import Series

UNTIL = datetime(2026, 1, 2, tzinfo=UTC)


def series(*lags: int | None, **flow: list[int]) -> Series:
    hour = timedelta(hours=1)
    rows: list[dict[str, Any]] = []
    for number, lag in enumerate(lags):
        counts = {
            name: flow[name][number] if name in flow else 0 for name in ("landed", "released", "dead", "duplicates")
        }
        at = UNTIL - hour * (len(lags) - 1 - number)
        rows.append({"at": at, "lag_seconds": lag, "valid_through": 7, **counts})
    return Series(rows, 3600, UNTIL - hour * len(lags), UNTIL, UNTIL)


def test_a_gap_before_the_first_cut_is_no_line() -> None:
    assert chart(series(None, None)).lines == ()
    assert [len(line.split()) for line in chart(series(None, 60, 60, None, 60)).lines] == [3, 2]


def test_the_highest_lag_and_the_largest_flow_lie_within_the_grid() -> None:
    lag = chart(series(5, 90_000, 10, released=[0, 700, 1], dead=[0, 30, 0]))
    heights = [float(point.split(",")[1]) for line in lag.lines for point in line.split()]
    tops = [tick.at for tick in (lag.lag_ticks[-1], lag.flow_ticks[-1])]
    assert min(heights) >= tops[0] and min(bar.dead_y for bar in lag.bars) >= tops[1]
    assert [tick.text for tick in lag.lag_ticks] == ["0 s", "12 h", "1 d", "1 d 12 h"]
    assert [tick.text for tick in lag.flow_ticks] == ["0", "500", "1,000"]


def test_dead_letters_stand_on_what_was_released() -> None:
    (bar,) = chart(series(1, released=[30], dead=[10])).bars
    assert bar.dead_y + bar.dead_height == bar.released_y and bar.released_height == 3 * bar.dead_height
    assert bar.title == "until 2026-01-02 00:00 UTC: 30 released, 10 dead"


def test_it_says_in_words_what_there_is_to_see() -> None:
    sentence = "Events: 9 landed, 0 released, 0 dead, 0 duplicates."
    assert chart(series(None, None, landed=[9, 0])).said == f"No cut was published by then. {sentence}"
    assert (
        chart(series(120, 60, landed=[9, 0])).said == f"Readers are 1 min behind the source, at most 2 min. {sentence}"
    )
