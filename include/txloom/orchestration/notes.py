"""The note of a DAG run: for a cycle one line of Markdown for each step, for other runs the text of one of their tasks.

In Airflow 3 a task can neither reach the metadata database nor write a note with the task API; the scheduler can.
"""

from collections.abc import Mapping
from typing import Any

SHOWN = {
    "check_source": ("waiting", "work"),
    "land_events": ("landing", "landed", "poison", "unwatched"),
    "diff_snapshot": ("date", "inserts", "updates", "deletes", "missing", "unchanged", "skipped"),
    "buffer_transactions": ("transactions", "released", "buffered", "dead", "duplicates", "redriven"),
    "merge_current": ("changes", "merged", "failed", "findings"),
    "publish": ("cut_id", "valid_through", "gaps"),
}
"""By task, in the order of a run, the counts that a note shows; zeros are left out, except for the first count."""

SAID = "txloom_note"
"""The XCom key of the text for the run's note."""
LONGEST = 900
"""Characters of that text: Airflow keeps 1,000."""


def say(instance: Any, text: str) -> None:
    """Set the text of the run's note, which is written when the run ends; the task's log should hold all of it.

    A text of more than LONGEST characters is cut at the end of a line. A repeated call replaces the text.
    """
    short = text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(chr(10), 1)[0]}\n\n... the rest is in the log."
    instance.xcom_push(key=SAID, value=short)


def note(returned: Mapping[str, Mapping[str, Any]], failed: list[str]) -> str:
    """Return a run's note; returned: by task, its counts. failed: the tasks that failed.

    >>> note({"land_events": {"landing": "3", "landed": "120", "poison": "0"}, "publish": {"cut_id": "2"}}, [])
    '**land_events** landing 3, landed 120\\n\\n**publish** cut_id 2'
    """
    lines = [f"**failed** {', '.join(sorted(failed))}"] if failed else []
    for task, names in SHOWN.items():
        counts = returned.get(task, {})
        counted = [
            f"{name} {counts[name]}" for i, name in enumerate(names) if _is_worth_noting(counts.get(name), first=i == 0)
        ]
        lines += [f"**{task}** {', '.join(counted)}"] if counted else []
    return "\n\n".join(lines)


def _is_worth_noting(count: Any, *, first: bool) -> bool:
    return count is not None and (first or str(count) not in ("0", ""))
