"""Cut a captured GoldenGate delivery into the arrivals of include/sample.

    python scripts/cut_sample.py CAPTURE_FOLDER [SAMPLE_FOLDER]

CAPTURE_FOLDER holds goldengate/delivery.jsonl.gz, final/*.jsonl.gz and schema.sql. The sample is kept in the
repository; this script is only needed to cut it again, and writes the same bytes every time.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

# Each arrival ends before this seq. 4300 lies in the middle of the 5,000-row transaction (seq 2939 to 8148).
ENDS = (1200, 2400, 4300, 9000, 12300, sys.maxsize)


def messages(delivery: Path) -> Iterator[tuple[int, str, str]]:
    """Yield seq, topic and message of each delivered record, in the order of delivery."""
    with gzip.open(delivery, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            record = json.loads(line)
            yield record["seq"], record["topic"], record["value"]


def arrival_of(seq: int) -> int:
    """Return the number, from 1, of the arrival that holds this seq."""
    return next(number for number, end in enumerate(ENDS, start=1) if seq < end)


def cut(delivery: Path) -> dict[tuple[int, str], list[str]]:
    """Group the messages by arrival and topic, keeping the order of delivery within each."""
    groups: dict[tuple[int, str], list[str]] = defaultdict(list)
    for seq, topic, message in messages(delivery):
        groups[arrival_of(seq), topic].append(message)
    return groups


def write_lines(path: Path, lines: list[str]) -> None:
    """Write lines as gzip without a time stamp, so that the same lines give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content, compresslevel=9, mtime=0))


def main(capture: Path, sample: Path) -> None:
    """Write the arrivals, the true final state and the schema of a capture into the sample folder."""
    shutil.rmtree(sample / "arrivals", ignore_errors=True)
    for (number, topic), lines in sorted(cut(capture / "goldengate" / "delivery.jsonl.gz").items()):
        write_lines(sample / "arrivals" / f"{number:02}" / topic / f"arrival-{number:02}.jsonl.gz", lines)
    for table in sorted((capture / "final").glob("*.jsonl.gz")):
        with gzip.open(table, "rt", encoding="utf-8", newline="\n") as rows:
            write_lines(sample / "truth" / table.name, rows.read().splitlines())
    (sample / "schema.sql").write_bytes((capture / "schema.sql").read_bytes())


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[1]
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else here / "include" / "sample")
