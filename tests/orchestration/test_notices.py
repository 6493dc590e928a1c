"""What a failed task opens an incident for: what its job left says whether expectations alone failed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from txloom.errors import ExpectationFailed, SourceUnavailable
from txloom.orchestration.notices import TaskNotice
from txloom.storage.health import incidents
from txloom.storage.paths import TablePaths
from txloom.storage.runs.job_results import JobResult, ResultFile

DECLARED = """
name: shop
source: {{format: change_sets, files: {{path: {folder}}}}}
completeness: {{rule: single}}
tables: [{{name: rows, source: S.ROWS, key: [id], columns: {{id: long}}}}]
targets: {{mirrors: [rows]}}
alerts: {{notify: [{{kind: log}}]}}
"""


@pytest.mark.parametrize(("error", "opened"), [(ExpectationFailed, 0), (SourceUnavailable, 1), (None, 1)])
def test_a_task_that_fails_for_expectations_alone_opens_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Any] | None, opened: int
) -> None:
    (tmp_path / "shop.yaml").write_text(DECLARED.format(folder=tmp_path))
    monkeypatch.setenv("TXLOOM_PIPELINES", str(tmp_path))
    monkeypatch.setenv("TXLOOM_WAREHOUSE", str(tmp_path / "lake"))
    if error is not None:
        result = JobResult(exit_code=error.exit_code, message="why")
        ResultFile.of(str(tmp_path / "lake"), "shop", "r", "publish").write(result)
    context: Any = {"ti": SimpleNamespace(dag_id="shop_cdc", task_id="publish", run_id="r"), "exception": "why"}
    TaskNotice("shop", failed=True).notify(context)
    known = incidents.lifecycles(TablePaths(str(tmp_path / "lake"), "shop"))
    assert [each.incident.subject for each in known] == ["shop_cdc.publish"] * opened
