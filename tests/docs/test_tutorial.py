"""docs/tutorial.md, played: its files, delivered as it says, give the counts and the rows that it shows."""

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from called import step_of
from txloom import read
from txloom.config import load
from txloom.steps.landing.land_events import land_events
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.publish.check_expectations import check_expectations
from txloom.steps.publish.publish import publish
from txloom.steps.runner import last_line
from workloads.small_lake import SmallLake

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "tutorial.md").read_text()
FILE = re.compile(r"^File `([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^txloom (?:land_events|merge_current|check_expectations|publish): .*$", re.MULTILINE)


def files(section: str) -> dict[str, str]:
    """Return the files that a section of the page has its reader write."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return {match[1]: match[2] for match in FILE.finditer(text)}


def write(made: Mapping[str, str], folder: Path) -> None:
    """Write files of the page below another folder."""
    for name, text in made.items():
        file = folder / Path(name).relative_to(".state/bank")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace(".state/bank", str(folder)))


def cycle(lake: SmallLake, run_id: str) -> list[str]:
    """Run the steps of a cycle, the buffer without a JVM; return the last line of each but the buffer's."""
    lines = []
    for step in (land_events, None, merge_current, check_expectations, publish):
        if step is None:
            lake.buffer()
        else:
            counts = step(step_of(lake.pipeline, lake.warehouse, run_id, lake.session))
            lines.append(last_line(step.__name__, "bank", run_id, counts))
    return lines


def test_the_tutorial_shows_what_happens(tmp_path: Path) -> None:
    write(files("Declare the pipeline"), tmp_path)
    lake = SmallLake(tmp_path, load(tmp_path / "bank.yaml"))
    shown = []
    for section, run_id in (("Deliver half of a transfer", "first"), ("Deliver the rest", "second")):
        write(files(section), tmp_path)
        shown += cycle(lake, run_id)
        if run_id == "first":
            (waiting,) = lake.rows("pending_transactions")
            assert (waiting["xid"], waiting["received"], waiting["expected"]) == (
                "7.2", [("accounts", 1)], [("accounts", 2)],
            )  # fmt: skip
    assert shown == LINE.findall(PAGE)
    for csn, balances in ((1001, ["70.00", "30.00"]), (1002, ["50.00", "50.00"])):
        rows = read.as_of(lake.pipeline, "accounts", csn=csn, warehouse=lake.warehouse).to_pylist()
        assert [row["balance"] for row in rows] == list(map(Decimal, balances))
    assert read.versions(lake.pipeline, warehouse=lake.warehouse) == {"accounts": 2}


@pytest.mark.parametrize(("page", "title"), [("README.md", "Declare your own pipeline")])
def test_a_declaration_that_a_page_shows_is_right(tmp_path: Path, page: str, title: str) -> None:
    section = (PROJECT / page).read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    block = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    ") or not line)
    (tmp_path / "shown.yaml").write_text(block)
    assert load(tmp_path / "shown.yaml").name == "bank"
