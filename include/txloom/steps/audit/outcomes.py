"""What is known of a table at the end of an audit, and how its looks at a table add up."""

from dataclasses import dataclass, replace

from txloom.steps.audit.compare_documents import ComparedDocuments
from txloom.steps.audit.compare_table import Compared
from txloom.storage.checks.audited_rows import DIFFERENT, DOCUMENTS, EQUAL, NOT_COMPARED, ROWS
from txloom.storage.databases.audit_source import Moment
from txloom.storage.publishing.reader_holds import Cut

BEHIND, UNSETTLED = "behind", "unsettled"
NOTHING = Compared(0, [], {})
UNEXPLAINED = "the digests of both sides differ, and no row does: audit again, and report it if it stays"


@dataclass(frozen=True)
class Outcome:
    """What is known of a table at the end.

    Args:
        verdict: of `audit_results`.
        compared: what was found.
        cut: the cut that was read; None: none was.
        moment: where the source's snapshot lies; None: it was not asked.
        reason: why nothing can be said of rows, where that is so.
        not_compared: sentences that say what was left out, and why.
        differing: how many rows differ, of which `compared` may describe the first only.
        kind: ROWS or DOCUMENTS.
    """

    verdict: str
    compared: Compared = NOTHING
    cut: Cut | None = None
    moment: Moment | None = None
    reason: str = ""
    not_compared: tuple[str, ...] = ()
    differing: int = 0
    kind: str = ROWS

    @property
    def is_undecided(self) -> bool:
        """Return whether nothing can be said of the table, though it was to be compared."""
        return bool(self.reason) and self.verdict in (UNSETTLED, NOT_COMPARED)


def joined(known: Outcome | None, look: Outcome) -> Outcome:
    """Add a look at some rows to those before; its verdict is BEHIND where the lake does not show its moment.

    Rows that differ prove nothing then: what looks before proved stays, and these rows stay unsettled. Nor does a look
    prove anything that has a reason.
    """
    if look.reason:
        if known is not None and known.compared.differences:
            return replace(known, reason=look.reason, differing=len(known.compared.differences))
        rows = 0 if known is None else known.compared.rows
        return replace(look, compared=replace(look.compared, rows=rows))
    seen = look.compared
    is_behind = look.verdict == BEHIND and bool(seen.differences or seen.in_flight or not seen.is_explained)
    if known is not None and known.compared.differences and is_behind:
        return known
    # A table that could not be read at the looks before is looked at whole.
    if known is not None and (known.compared.rows or known.compared.differences):
        seen = replace(seen, rows=known.compared.rows, differences=[*known.compared.differences, *seen.differences])
    is_moving, reason = bool(seen.in_flight), ""
    if not seen.is_explained and not seen.differences and not is_moving and not is_behind:
        is_moving, reason = True, UNEXPLAINED
    verdict = BEHIND if is_behind else DIFFERENT if seen.differences else UNSETTLED if is_moving else EQUAL
    notes = look.not_compared or (known.not_compared if known is not None else ())
    return replace(
        look, verdict=verdict, compared=seen, reason=reason, not_compared=notes, differing=len(seen.differences)
    )


def of_documents(seen: ComparedDocuments, cut: Cut, notes: tuple[str, ...]) -> Outcome:
    """Return what is known of a document table; notes: sentences about rows that were not compared."""
    verdict, reason = (DIFFERENT if seen.differing else EQUAL), seen.gone or seen.unknown
    if reason and not seen.differing:
        verdict = UNSETTLED
    compared = Compared(seen.rows, seen.differences, {})
    return Outcome(verdict, compared, cut, None, reason, notes, seen.differing, DOCUMENTS)
