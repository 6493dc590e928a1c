"""What a run says of itself as the note of its DAG run: a cycle one line of Markdown for each step, others their own.

In Airflow 3 a task can neither reach the metadata database nor write a note over its own API; the scheduler can.
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
"""By task, in the order of a run, the counts that people ask for; zeros are left out but for the first."""

SAID = "txloom_note"
"""Under this key a task pushes what its run's note shall say."""
LONGEST = 900
"""Characters of it: Airflow keeps 1,000."""


def say(instance: Any, text: str) -> None:
    """Let the note of a task instance's run say a text once it ends; the whole of it belongs into the task's log."""
    short = text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(chr(10), 1)[0]}\n\n... the rest is in the log."
    instance.xcom_push(key=SAID, value=short)


def note(returned: Mapping[str, Mapping[str, Any]], failed: list[str]) -> str:
    """Return a run's note; returned: by task, its counts. failed: the tasks that are red.

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
