"""What `make break` can do: for each fault what one should see where, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass

from txloom.generate.trial import damage
from txloom.generate.trial.damage import Damage


@dataclass(frozen=True)
class Kind:
    """One fault.

    summary: what happens. see: what the page shows after the next cycle, and where. repair: what `make repair` does and
    what the page shows then; empty where nothing is left to repair. yours: what only a person can do. change: what it
    does to a slice; None for what happens elsewhere. lasts: whether it goes on until it is repaired.
    """

    summary: str
    see: str
    repair: str
    yours: str = ""
    change: Damage | None = None
    lasts: bool = False


KINDS: Mapping[str, Kind] = {
    "lost-metadata": Kind(
        "a transaction's metadata are lost: nobody knows how many rows it has",
        "readers stay at the state before it. Waiting names the transaction, with 'metadata never came'; after a "
        "minute that is an incident. After three minutes (patience) its rows are dead letters, a gap of the cuts.",
        "the metadata come late. The transaction is whole, and readers see it; where it had become dead letters it is "
        "redriven by itself, and cuts that lacked it are amended",
        change=damage.lose_metadata,
    ),
    "lost-row": Kind(
        "one row's event of a transaction is lost",
        "readers stay at the state before that transaction. Waiting names it, the table, and how many of its rows "
        "came; after a minute that is an incident. After three minutes (patience) all its rows are dead letters, and "
        "the expectation order_totals holds the cut back, because one order lacks an item.",
        "the event comes late. The transaction is whole, and readers see all of it at once; dead letters are redriven "
        "by themselves",
        change=damage.lose_row,
    ),
    "orphan": Kind(
        "an application inserts a line item of an order that does not exist",
        "the run fails in the expectation orphan_line_items, and publishes nothing: readers keep the last good cut. "
        "Expectations lists the row.",
        "the application deletes the row. The next run finds none, and publishes",
        change=damage.plant_orphan,
    ),
    "bad-value": Kind(
        "an application writes text into an order's total",
        "dead letters, 'value cannot be read': which column of which row, in which file and line. Readers go on "
        "without that transaction, a gap of the cuts.",
        "the application has written the right total since, by a later transaction",
        "dismiss what cannot be repaired: run the DAG orders_dead_letters with action dismiss, that transaction and a "
        "reason; the page is green after the next run",
        change=damage.spoil_value,
    ),
    "quiet-source": Kind(
        "the source sends nothing any more",
        "runs are green, and find nothing; after two minutes (source_quiet) the page is amber: source quiet.",
        "the source works again. The incident is over after the next run",
        lasts=True,
    ),
    "killed-task": Kind(
        "a job is killed in the middle of its work",
        "the task's first attempt failed, with signal 9 in its log. Airflow starts it again after half a minute, and "
        "the run ends green: no row is doubled, none is missing.",
        "",
    ),
    "schema-change": Kind(
        "the source adds a column that nobody declared",
        "Findings: column added, with the table, the column and since when. Rows are published without it.",
        "",
        "declare it: add `gift_note: string` to the columns of orders in include/pipelines/orders.yaml. The next run "
        "has it, and closes the finding",
        change=damage.add_column,
        lasts=True,
    ),
    "connector-restart": Kind(
        "a connector restarts, and sends what it had sent already",
        "the run is green. Runs counts what came again as duplicates, and no table changes by it.",
        "",
        change=damage.send_again,
    ),
}
