"""check_expectations: judge what publish would publish, keep the results, and hold publish back where one blocks."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from txloom.config import names
from txloom.config.models import Expectation, OrphanExpectation, Pipeline
from txloom.errors import ConfigurationError, ExpectationFailed
from txloom.quality.verdicts import Verdict, judge
from txloom.storage import books, checked, local
from txloom.storage.own import EXPECTATION_RESULTS
from txloom.storage.place import Place


def check_expectations(
    _spark: object, pipeline: Pipeline, *, warehouse: str, run_id: str, only: Sequence[str] = ()
) -> dict[str, int]:
    """Check declared expectations, all or only those named, and append one row each to expectation_results.

    Raises ExpectationFailed after the results are safe when one with severity `block` failed; it names the rows.
    """
    place = Place(warehouse, pipeline.name)
    results = [_check(pipeline, place, expectation, run_id) for expectation in _chosen(pipeline, only)]
    path = place.table(names.EXPECTATION_RESULTS)
    sql = f"select expectation from t where run_id = {local.quoted(run_id)}"
    known = {row["expectation"] for row in books.query(path, sql)}
    new = [result for result in results if result["expectation"] not in known]
    if new:
        books.append(path, new, EXPECTATION_RESULTS)
    failed = [result for result in results if not result["success"]]
    for result in failed:
        print(f"{result['severity']}: {told(result)}", flush=True)
    blocking = [told(result) for result in failed if result["severity"] == "block"]
    if blocking:
        raise ExpectationFailed(" | ".join(blocking))
    return {"checked": len(results), "failed": len(failed), "rows": sum(result["failed"] for result in results)}


def _chosen(pipeline: Pipeline, only: Sequence[str]) -> list[Expectation]:
    declared = {expectation.id: expectation for expectation in pipeline.expectations}
    unknown = [name for name in only if name not in declared]
    if unknown:
        raise ConfigurationError(f"no expectation is called {unknown[0]!r}; declared are: {', '.join(declared)}")
    return [declared[name] for name in only] if only else list(declared.values())


def _check(pipeline: Pipeline, place: Place, expectation: Expectation, run_id: str) -> dict[str, Any]:
    at = checked.looked_at(pipeline, place, expectation)
    if isinstance(expectation, OrphanExpectation):
        found, sample = checked.orphans(pipeline, place, expectation, at)
    else:
        found, sample = checked.waiting(place, expectation, at)
    verdict: Verdict = judge(found.to_pandas(), expectation, suite=pipeline.name, run_id=run_id)
    return {
        "run_id": run_id,
        "expectation": expectation.id,
        "kind": expectation.kind,
        "severity": expectation.severity,
        "success": verdict.success,
        "checked": verdict.checked,
        "failed": verdict.failed,
        "sample": json.dumps(sample, default=str, ensure_ascii=False),
        "sentence": expectation.sentence,
        "hint": expectation.hint,
        "checked_at": datetime.now(UTC),
        "versions": list(at.items()),
        "detail": None if at else "nothing to check yet: the tables do not exist",
    }


def told(result: dict[str, Any]) -> str:
    """Say what failed in one line: the expectation, how many rows, the first of them, and what to do."""
    first = json.loads(result["sample"])[:3]
    rows = "; ".join(
        ", ".join(f"{name}={value}" for name, value in row.items() if not name.startswith("_")) for row in first
    )
    more = "" if result["failed"] <= len(first) else ", ..."
    return (
        f"{result['expectation']}: {result['failed']} of {result['checked']} rows fail ({rows}{more}). {result['hint']}"
    )
