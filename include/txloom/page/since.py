"""What a page compares with: the moment since when changes are shown, and what Airflow's runs did since."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txloom.config.problems import counted
from txloom.quality import incidents as kinds
from txloom.storage.views.pipeline import changes
from txloom.storage.views.pipeline.changes import ACT, OVER, RUN, Change, Changes

BACK = {"1h": "1 h", "8h": "8 h", "1d": "a day", "7d": "7 days"}
"""Durations that somebody can choose instead of the last look."""
PARTS: Mapping[str, tuple[str, str | None]] = {
    kinds.EXPECTATION: ("expectations", None),
    kinds.FINDING: ("findings", None),
    changes.LETTERS: ("letters", "cause"),
    changes.DISMISSED: ("letters", None),
    changes.WAITING: ("waiting", "cause"),
    changes.CUTS: ("cuts", None),
    changes.COLUMNS: ("cuts", None),
    changes.REDRIVEN: ("runs", None),
    changes.BACKFILL: ("runs", None),
    changes.EDIT: ("runs", None),
}
"""The page that shows the rows of a kind of change, and its parameter that takes the subject; else: incidents."""


@dataclass(frozen=True)
class EndedRuns:
    """The runs of a DAG that failed since a moment: how many, the newest, and when one last succeeded."""

    dag_id: str
    failed: int
    failed_at: datetime
    succeeded_at: datetime | None


@dataclass(frozen=True)
class Since:
    """The moment, how it was chosen (None: it is the last look), and the runs that failed since."""

    at: datetime
    chosen: str | None = None
    is_first: bool = False
    """The browser never looked before."""
    runs: Sequence[EndedRuns] = ()

    def with_runs(self, of: Changes, dag_ids: Collection[str]) -> Changes:
        """Return changes together with the failed runs of some DAGs."""
        return changes.ordered(of.since, [*self._failed(dag_ids), *of.rows])

    def _failed(self, dag_ids: Collection[str]) -> Iterator[Change]:
        for each in self.runs:
            if each.dag_id in dag_ids:
                is_over = each.succeeded_at is not None and each.succeeded_at > each.failed_at
                what = f"{counted(each.failed, 'run')} of {each.dag_id} failed{'; a later one succeeded' * is_over}"
                yield Change(OVER if is_over else ACT, RUN, each.dag_id, what, each.failed_at, count=each.failed)


def shown_by(change: Change) -> tuple[str, dict[str, Any]]:
    """Return the page of a pipeline that shows the rows of a change, and its parameters."""
    part, parameter = PARTS.get(change.kind, ("incidents", None))
    return part, {parameter: change.subject} if parameter and change.subject else {}
