"""Write the saved results of benchmarks into the documentation: tables and plots of each part, and the machine's facts.

    PYTHONPATH=tests python tests/benchmarks/document.py

It replaces what stands between the two marks of docs/performance.md, the plots of docs/images, and the copy of the
results beside this program, which says what was measured where and when. What was not measured here stays as it is.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.measuring import HERE, PROJECT, SCRATCH
from benchmarks.report import markdown

PAGE = PROJECT / "docs" / "performance.md"
IMAGES = PROJECT / "docs" / "images"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
STEP = re.compile(r"txloom: |part |task ")
"""The beginning of variants that are parts of another one: tables have them, plots do not."""
WIDTH, LABEL, ROW, FONT = 760, 380, 20, 12
OURS, OTHERS, TEXT, LIGHT = "#2f6fde", "#9aa4b2", "#57606a", "#c9d1d9"


def main() -> int:
    """Write tables and plots, and return the exit code."""
    file = SCRATCH / "results.json"
    if not file.is_file():
        print(f"{file}: nothing was measured yet: make bench", file=sys.stderr)
        return 1
    kept = HERE / "results.json"
    known: dict[str, Any] = {**json.loads(kept.read_text()), **json.loads(file.read_text())}
    kept.write_text(json.dumps(known, indent=1) + "\n")
    sections = [_section(name, part) for name, part in known.items()]
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{chr(10).join(sections)}\n{END}{after}")
    return 0


def _section(name: str, part: Mapping[str, Any]) -> str:
    facts = part["machine"]
    text = markdown([part]).split("\n", 1)
    place = f"{facts['cores']} cores of {facts['processor']}, {facts['memory_gb']:.0f} GB, {facts['at'][:10]}, "
    versions = f"commit {facts['commit']}, Spark {facts['pyspark']}, Delta {facts['delta-spark']}"
    (IMAGES / f"bench-{name}.svg").write_text(_plot(part))
    image = f"![Medians of seconds: {part['title']}](images/bench-{name}.svg)"
    return f"{text[0]}\n\n`make bench PARTS={name}`: {place}{versions}.\n\n{image}\n{text[1]}"


def _plot(part: Mapping[str, Any]) -> str:
    """Return a bar for each case and variant, as long as its median of seconds; a part's own scale begins at 0."""
    rows = [row for row in part["rows"] if not STEP.match(row["variant"])]
    longest = max((row["median_s"] for row in rows), default=1) or 1
    drawn, y, case = list[str](), 0, None
    for row in rows:
        if row["case"] != case:
            case = row["case"]
            y += ROW + (ROW // 2 if drawn else 0)
            drawn.append(_text(0, y, case, weight="bold"))
        y += ROW
        width = (WIDTH - LABEL - 70) * row["median_s"] / longest
        colour = OURS if row["variant"].startswith("txloom") else OTHERS
        bar = f'<rect x="{LABEL}" y="{y - FONT}" width="{max(width, 1):.1f}" height="{ROW - 6}" fill="{colour}"/>'
        drawn += [_text(12, y, row["variant"]), bar, _text(LABEL + width + 6, y, f"{row['median_s']:.1f} s")]
    return _svg(part["title"], drawn, y + ROW // 2)


def _text(x: float, y: float, text: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-weight="{weight}">{escape(text)}</text>'


def _svg(title: str, drawn: Sequence[str], height: int) -> str:
    style = f'font-family="sans-serif" font-size="{FONT}" fill="{TEXT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" {style}>'
    dark = f"<style>@media (prefers-color-scheme: dark) {{ text {{ fill: {LIGHT}; }} }}</style>"
    about = f"<title>{escape(title)}</title><desc>A bar for each case and variant: its median of seconds.</desc>"
    return "\n".join([head, about, dark, *drawn, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
