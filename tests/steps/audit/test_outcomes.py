"""How the looks of an audit at a table add up to one verdict."""

from datetime import UTC, datetime

from txloom.steps.audit.compare_documents import ComparedDocuments
from txloom.steps.audit.compare_table import Compared, Difference
from txloom.steps.audit.outcomes import UNEXPLAINED, Outcome, joined, of_documents
from txloom.storage.databases.snapshot_folder import Moment
from txloom.storage.publishing.reader_holds import Cut

ROW, OTHER = Difference({"id": "1"}, "missing"), Difference({"id": "2"}, "missing")
CUT, MOMENT = Cut(1, 7, {}), Moment(7, datetime.now(UTC))
MOVING = {("2",): (2,)}


def look(rows: int, *differences: Difference, moving: bool = False, verdict: str = "equal") -> Outcome:
    """Return what a look saw; moving: whether a row that differs is still being changed."""
    return Outcome(verdict, Compared(rows, [*differences], MOVING if moving else {}), CUT, MOMENT)


def unread(*, keys: bool = False) -> Outcome:
    """Return a look at a table that was changed while it was to be read; keys: whether only some rows were sought."""
    return Outcome("unsettled", Compared(0, [], MOVING if keys else {}), CUT, MOMENT, "it was truncated")


def test_what_a_look_proved_stays_where_the_next_one_has_no_cut_in_time() -> None:
    first = joined(None, look(9, ROW, moving=True))
    assert first.verdict == "different"
    late = look(1, OTHER, verdict="behind")
    both = joined(first, late)
    assert (both.verdict, both.compared.differences, len(both.compared.in_flight)) == ("different", [ROW], 1)
    assert joined(None, late).verdict == "behind"
    moved = joined(None, look(9, moving=True))
    assert (moved.verdict, joined(moved, late).verdict) == ("unsettled", "behind")
    assert joined(first, look(1, verdict="behind")).verdict == "different"


def test_a_table_that_could_not_be_read_is_unsettled_and_no_row_of_it_differs() -> None:
    assert (joined(None, unread()).verdict, joined(None, unread()).is_undecided) == ("unsettled", True)
    moved = joined(joined(None, look(9, moving=True)), unread(keys=True))
    assert (moved.verdict, moved.compared.rows, moved.compared.in_flight) == ("unsettled", 9, MOVING)
    assert moved.reason == "it was truncated" and moved.is_undecided


def test_a_look_that_could_not_read_takes_back_nothing_that_a_look_before_proved() -> None:
    both = joined(joined(None, look(9, ROW, moving=True)), unread(keys=True))
    assert (both.verdict, both.compared.differences, both.differing, both.reason) == (
        "different",
        [ROW],
        1,
        "it was truncated",
    )


def test_a_table_that_is_read_at_the_second_look_is_looked_at_whole() -> None:
    both = joined(joined(None, unread()), look(7))
    assert (both.verdict, both.compared.rows, both.reason) == ("equal", 7, "")


def test_digests_that_differ_without_a_row_that_does_are_not_equal() -> None:
    unexplained = Outcome("equal", Compared(9, [], {}, is_explained=False), CUT, MOMENT)
    seen = joined(None, unexplained)
    assert (seen.verdict, seen.reason, seen.is_undecided) == ("unsettled", UNEXPLAINED, True)


def test_documents_that_cannot_be_read_are_unsettled_and_those_that_are_gone_differ() -> None:
    assert of_documents(ComparedDocuments(3), CUT, ()).verdict == "equal"
    assert of_documents(ComparedDocuments(unknown="no version"), CUT, ()).is_undecided
    gone = of_documents(ComparedDocuments(3, 3, [ROW], gone="it is gone"), CUT, ("a note",))
    assert (gone.verdict, gone.differing, gone.kind, gone.not_compared) == ("different", 3, "documents", ("a note",))
