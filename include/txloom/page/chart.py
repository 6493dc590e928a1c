"""Lag and throughput over time as SVG coordinates; the template draws them, the style sheet colors them."""

from dataclasses import dataclass
from datetime import datetime

from txloom.page import formatting
from txloom.storage.views.paging import Row
from txloom.storage.views.pipeline.lag_series import COUNTED, Series

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 140, 64, 24, 8, 22
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 172_800)
"""Distances of grid lines in seconds; above them whole days."""


@dataclass(frozen=True)
class Tick:
    """A grid line with its label, or a time below the chart; at: its coordinate."""

    at: float
    text: str


@dataclass(frozen=True)
class Bar:
    """The events of a bucket: released and dead ones, as rectangles one on top of the other."""

    x: float
    width: float
    released_y: float
    released_height: float
    dead_y: float
    dead_height: float
    title: str


@dataclass(frozen=True)
class Chart:
    """Both charts on one time axis.

    lines: a polyline for each stretch of the lag without a gap. said: a sentence on what the charts show.
    """

    lines: tuple[str, ...]
    bars: tuple[Bar, ...]
    lag_ticks: tuple[Tick, ...]
    flow_ticks: tuple[Tick, ...]
    times: tuple[Tick, ...]
    said: str
    shown: tuple[Row, ...]
    """The points in which events were counted, and the newest point; the newest first."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    floor: int = HEIGHT - BOTTOM


def chart(series: Series) -> Chart:
    """Return the coordinates of both charts, and a sentence on what they show."""
    points = series.points
    lags = [row["lag_seconds"] for row in points if row["lag_seconds"] is not None]
    step = _step(max(lags, default=0))
    flows = [row["released"] + row["dead"] for row in points]
    highest = _round(max(flows, default=0))
    return Chart(
        _lines(points, step * 3),
        tuple(_bar(number, row, len(points), highest) for number, row in enumerate(points) if flows[number]),
        tuple(Tick(_y(step * n, step * 3), formatting.span(step * n)) for n in range(4)),
        tuple(Tick(_y(highest * n / 2, highest), formatting.count(int(highest * n / 2))) for n in range(3)),
        _times(series),
        _said(series, lags),
        tuple(row for number, row in enumerate(points) if number == len(points) - 1 or _flows(row))[::-1],
    )


def _flows(row: Row) -> bool:
    return any(row[name] for name in COUNTED)


def _step(highest: int) -> int:
    """Return the distance of grid lines such that three of them reach the highest lag."""
    fits = next((step for step in STEPS if step * 3 >= highest), None)
    return fits or -(-highest // (3 * 86_400)) * 86_400


def _round(highest: int) -> int:
    """Return the smallest even number of one leading digit (2, 4, 5 or 10) that is at least the highest.

    >>> _round(0), _round(7), _round(130), _round(4100)
    (2, 10, 200, 5000)
    """
    size = 1
    while True:
        for first in (2, 4, 5, 10):
            if first * size >= highest and first * size % 2 == 0:
                return first * size
        size *= 10


def _x(share: float) -> float:
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def _y(value: float, most: float) -> float:
    return round(HEIGHT - BOTTOM - (value / most if most else 0) * (HEIGHT - BOTTOM - TOP), 1)


def _lines(points: list[Row], most: int) -> tuple[str, ...]:
    """Return the lag as polylines; points before the first cut have no line."""
    lines: list[list[str]] = [[]]
    for number, row in enumerate(points):
        if row["lag_seconds"] is None:
            lines.append([])
            continue
        height = _y(min(max(row["lag_seconds"], 0), most), most)
        begin = [] if lines[-1] else [number]
        lines[-1] += [f"{_x(at / len(points))},{height}" for at in (*begin, number + 1)]
    return tuple(" ".join(line) for line in lines if line)


def _bar(number: int, row: Row, buckets: int, tall: int) -> Bar:
    wide = (WIDTH - LEFT - RIGHT) / buckets
    low, middle, top = _y(0, tall), _y(row["released"], tall), _y(row["released"] + row["dead"], tall)
    title = (
        f"until {_clock(row['at'])}: {formatting.count(row['released'])} released, {formatting.count(row['dead'])} dead"
    )
    return Bar(
        round(_x(number / buckets) + wide * 0.1, 1),
        round(wide * 0.8, 1),
        *(middle, round(low - middle, 1), top, round(middle - top, 1)),
        title,
    )


def _times(series: Series) -> tuple[Tick, ...]:
    long = (series.until - series.since).total_seconds() > 2 * 86_400
    ticks = []
    for number in range(5):
        at = series.since + (series.until - series.since) * number / 4
        ticks.append(Tick(_x(number / 4), f"{at:%d %b}" if long else f"{at:%H:%M}"))
    return tuple(ticks)


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _said(series: Series, lags: list[int]) -> str:
    sums = {name: sum(row[name] for row in series.points) for name in COUNTED}
    flow = ", ".join(f"{formatting.count(number)} {name}" for name, number in sums.items())
    if not lags:
        return f"No cut was published by then. Events: {flow}."
    behind = f"{formatting.span(lags[-1])} behind the source, at most {formatting.span(max(lags))}"
    return f"Readers are {behind}. Events: {flow}."
