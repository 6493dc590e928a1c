"""Measure txloom: `make bench`, or some parts by name.

    make bench
    PYTHONPATH=tests python tests/benchmarks/run.py merge first_load --rounds 1

Each part prints what it measures, checks every result, and names its goals. The results go into
the file results.json of the folder .state/bench, with the facts of the machine.

All parts together are measured once each, and parts by name in three rounds, in turns, of which the medians count.

Exit code 0: every result was right; goals may be missed. 1: a result was wrong or a program failed.
"""

import argparse
import importlib
import sys
import time

from benchmarks.measuring import SCRATCH, Failed
from benchmarks.report import Report, markdown, saved

PARTS = {
    "buffer": "Land and buffer transactions",
    "first_load": "First load of 5,000,000 rows",
    "merge": "Merge into a large table",
    "curve": "First rows in every way to merge them",
    "many_tables": "A cycle over many tables",
    "documents": "Documents of an order and its children",
    "age": "A cycle on a new pipeline, and on one with years behind it",
    "cycle": "A cycle under Airflow",
    "stragglers": "Transactions that wait, and one of 1,000,000 rows",
    "snapshot_diff": "Extracts compared with current tables",
    "overview": "The overview of 65 pipelines",
    "backfill": "A backfill of 1,000,000 rows",
    "edits": "Edits of a declaration over 5,000,000 rows",
}


def main() -> int:
    """Run the chosen parts and return the exit code."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    flags.add_argument("--rounds", type=int, help="of what takes less than a minute; by default 3, of all parts 1")
    given = flags.parse_args()
    rounds = given.rounds or (3 if given.parts else 1)
    if unknown := set(given.parts) - set(PARTS):
        flags.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    failed = False
    for name in given.parts or PARTS:
        report, begun = Report(name, PARTS[name]), time.perf_counter()
        print(f"== {name}: {report.title}", flush=True)
        try:
            importlib.import_module(f"benchmarks.parts.{name}").measure(report, rounds)
        except Failed as error:
            print(f"  WRONG {error}", flush=True)
            failed = True
        print(f"  ({time.perf_counter() - begun:.0f} s with preparations)", flush=True)
        known = saved(SCRATCH / "results.json", [report])
    print(markdown([known[name] for name in given.parts or PARTS]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
