"""What benchmarks found: measurements by case and variant, goals, the machine's facts; as text, JSON and Markdown."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measuring import PROJECT, Measured


@dataclass(frozen=True)
class Goal:
    """A number that a benchmark has to reach."""

    text: str
    value: float
    limit: float
    at_most: bool

    @property
    def is_reached(self) -> bool:
        """Return whether the number is reached."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit


@dataclass
class Report:
    """The measurements of one part of the benchmark."""

    part: str
    title: str
    runs: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)

    def add(self, case: str, variant: str, measured: Measured, seconds: float | None = None) -> Measured:
        """Enter a run; seconds: those that count, where they are not the whole run's."""
        if seconds is not None:
            measured.seconds = seconds
        self.runs.setdefault((case, variant), []).append(measured)
        print(
            f"  {case:<44} {variant:<28} {measured.seconds:8.1f} s {measured.cpu_seconds:8.1f} CPU s "
            f"{measured.largest_mb:7.0f} MB",
            flush=True,
        )
        return measured

    def median(self, case: str, variant: str) -> float:
        """Return the median of the seconds of a variant."""
        return statistics.median(each.seconds for each in self.runs[case, variant])

    def goal(self, text: str, value: float, *, at_most: float | None = None, at_least: float | None = None) -> None:
        """Enter a goal and show it at once; of a goal that each round has the worst stays."""
        limit = at_most if at_most is not None else at_least
        assert limit is not None
        goal = Goal(text, value, limit, at_most is not None)
        known = [each for each in self.goals if each.text == text]
        worst = max if goal.at_most else min
        self.goals = [each for each in self.goals if each not in known]
        self.goals.append(worst([*known, goal], key=lambda each: each.value))
        bound = "at most" if goal.at_most else "at least"
        print(f"  {'ok    ' if goal.is_reached else 'MISSED'} {text}: {value:.2f} ({bound} {limit:g})", flush=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON holds it."""
        rows = [
            {
                "case": case,
                "variant": variant,
                "seconds": [round(each.seconds, 2) for each in runs],
                "median_s": round(statistics.median(each.seconds for each in runs), 2),
                "cpu_s": round(statistics.median(each.cpu_seconds for each in runs), 2),
                "peak_mb": {k: round(v) for k, v in max(runs, key=lambda each: each.largest_mb).peak_mb.items()},
            }
            for (case, variant), runs in self.runs.items()
        ]
        goals = [{**vars(goal), "reached": goal.is_reached} for goal in self.goals]
        return {"title": self.title, "rows": rows, "goals": goals}


def machine() -> dict[str, Any]:
    """Return what the numbers depend on: processors, memory, versions, commit, moment."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=PROJECT, capture_output=True, text=True, check=False
    ).stdout.strip()
    packages = ("pyspark", "delta-spark", "deltalake", "pyarrow", "apache-airflow")
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "cores": os.cpu_count(),
        "processor": model,
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def markdown(parts: Iterable[dict[str, Any]]) -> str:
    """Return the parts as tables of Markdown."""
    lines: list[str] = []
    for part in parts:
        lines += [f"### {part['title']}", "", "| case | variant | seconds | CPU s | peak MB |", "|---|---|---|---|---|"]
        for row in part["rows"]:
            peak = ", ".join(f"{name} {mb:,}" for name, mb in sorted(row["peak_mb"].items()) if mb >= 50)
            lines.append(f"| {row['case']} | {row['variant']} | {row['median_s']:.1f} | {row['cpu_s']:.1f} | {peak} |")
        if part["goals"]:
            lines += ["", "| goal | measured | limit | |", "|---|---|---|---|"]
            for goal in part["goals"]:
                bound = "at most" if goal["at_most"] else "at least"
                reached = "reached" if goal["reached"] else "**missed**"
                lines.append(f"| {goal['text']} | {goal['value']:.2f} | {bound} {goal['limit']:g} | {reached} |")
        lines.append("")
    return "\n".join(lines)


def saved(file: Path, reports: Iterable[Report]) -> dict[str, Any]:
    """Enter reports into the file of results, in place of those of the same parts, and return all that it has now."""
    known: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    for report in reports:
        known[report.part] = {"machine": machine(), **report.to_dict()}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(known, indent=1))
    return known
