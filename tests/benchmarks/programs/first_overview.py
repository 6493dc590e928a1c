"""Render the overview as the API server does, in a new process: once, and again.

python tests/benchmarks/programs/first_overview.py DECLARATIONS WAREHOUSE

Prints RESULT with the seconds of the first page, declarations included, and of the next; the cuts that it shows, and
what changed in the last eight hours.
"""

import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta

from txloom.config.models.pipeline import Pipeline
from txloom.page import pages
from txloom.page.declaration_cache import declarations
from txloom.page.links import Links
from txloom.page.since import Since
from txloom.storage.views.pipeline.overview import overview

if __name__ == "__main__":
    since = Since(datetime.now(UTC) - timedelta(hours=8))
    os.environ["TXLOOM_PIPELINES"] = sys.argv[1]
    seconds, pipelines = [], list[Pipeline]()
    for _ in range(2):
        begun = time.perf_counter()
        pipelines = list(declarations().pipelines.values())
        pages.overview(pipelines, sys.argv[2], Links(), refused={}, since=since)
        seconds.append(time.perf_counter() - begun)
    shown = overview(pipelines, sys.argv[2], since=since.at)
    cuts = {row.cut_id for row in shown.rows}
    news = sorted({row.what for each in shown.changes.values() for row in each.rows})
    print("RESULT", json.dumps({"first_s": seconds[0], "next_s": seconds[1], "cuts": sorted(cuts), "news": news}))
