"""txloom's classes of Great Expectations, and the list of its own that declarations may name."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, os, warnings
os.environ["GX_ANALYTICS_ENABLED"] = "False"
warnings.simplefilter("ignore")
from datetime import timedelta
from great_expectations.expectations.expectation import Expectation
from txloom.config.models.expectations import StuckExpectation
from txloom.quality.conditions import AtMost
from txloom.quality.rules import PIPELINE_RULES, rule
stuck = StuckExpectation(
    kind="stuck_transactions", id="stuck", older_than="10m", severity="warn", sentence="Nobody waits.", hint="Look."
)
made = rule(stuck, AtMost("age_seconds", 600))
print(json.dumps({
    "own": sorted(PIPELINE_RULES), "gx": all(issubclass(kind, Expectation) for kind in PIPELINE_RULES.values()),
    "type": made.expectation_type, "meta": made.meta, "description": made.description,
    "severity": made.severity, "max": made.max_value,
}))
"""


def test_each_kind_is_a_class_of_great_expectations_that_carries_id_sentence_and_hint() -> None:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "include")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    classes = json.loads(done.stdout.splitlines()[-1])
    assert classes == {
        "own": [
            "dead_letters",
            "drift",
            "invariant",
            "orphans",
            "snapshot_age",
            "stuck_transactions",
            "unbalanced_ledger",
            "valid_through_age",
            "version_regressions",
        ],
        "gx": True,
        "type": "expect_no_stuck_transactions",
        "meta": {"txloom_id": "stuck", "hint": "Look."},
        "description": "Nobody waits.",
        "severity": "warning",
        "max": 600,
    }


def test_the_list_of_expectations_is_that_of_the_installed_version() -> None:
    script = PROJECT / "scripts" / "list_expectations.py"
    done = subprocess.run([sys.executable, "-W", "ignore", script], capture_output=True, text=True, check=True)
    assert done.stdout == (PROJECT / "include/txloom/config/validation/great_expectations.json").read_text()
