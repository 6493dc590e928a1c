"""Say by declared expectations whether what the storage room found holds.

Of txloom's own kinds SQL has counted already what fails. Whether Great Expectations judges the same rows too, a
declaration says with `judge`: in each cycle, or only where SQL found something; loading it takes seconds (ADR 20, 35).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from txloom.config.models.expectations import Expectation, GreatExpectation
from txloom.errors import TxloomError
from txloom.quality import checkpoint
from txloom.quality.checkpoint import Case, Outcome
from txloom.quality.masking import MOST, is_secret


@dataclass(frozen=True)
class Evidence:
    """What SQL found on pinned versions of tables, and what Great Expectations judges.

    checked: how many rows were looked at. failed, sample: how many of them fail, and the first of those, by a kind of
    txloom's own. case: None where there is nothing to look at. detail: what people should know beside the rows.
    """

    checked: int
    failed: int = 0
    sample: list[dict[str, Any]] = field(default_factory=list)
    detail: str | None = None
    case: Case | None = None


@dataclass(frozen=True)
class Verdict:
    """What came of it: how many rows were looked at, how many fail, and the first of those."""

    success: bool
    checked: int
    failed: int
    sample: list[dict[str, Any]] = field(default_factory=list)
    detail: str | None = None


@dataclass(frozen=True)
class Judged:
    """What came of some expectations by their ids: a verdict, or the error that says why there is none.

    outcomes: of those that Great Expectations judged.
    """

    verdicts: Mapping[str, Verdict | TxloomError]
    outcomes: Mapping[str, Outcome]


def judge(
    found: Sequence[tuple[Expectation, Evidence]],
    *,
    suite: str,
    run_id: str,
    always: bool,
    referenced: Collection[str] = (),
) -> Judged:
    """Judge evidence, all that Great Expectations judges in one Checkpoint.

    always: Great Expectations judges also what SQL finds to hold. referenced: texts that no message may repeat.
    """
    asked = [(each, told) for each, told in found if told.case is not None and (always or not _holds(each, told))]
    cases = [told.case for _, told in asked if told.case is not None]
    said = checkpoint.run(cases, suite=suite, run_id=run_id, referenced=referenced) if cases else {}
    verdicts: dict[str, Verdict | TxloomError] = {
        each.id: Verdict(not told.failed, told.checked, told.failed, told.sample, told.detail) for each, told in found
    }
    for expectation, evidence in asked:
        verdicts[expectation.id] = _verdict(expectation, evidence, said[expectation.id], referenced)
    return Judged(verdicts, {name: each for name, each in said.items() if isinstance(each, Outcome)})


def _holds(expectation: Expectation, evidence: Evidence) -> bool:
    """Say whether SQL alone can tell that an expectation holds."""
    return not isinstance(expectation, GreatExpectation) and not evidence.failed


def _verdict(
    expectation: Expectation, evidence: Evidence, said: Outcome | TxloomError, referenced: Collection[str]
) -> Verdict | TxloomError:
    if isinstance(said, TxloomError):
        return said
    if said.trouble:
        return checkpoint.shown_trouble(expectation, said.trouble, referenced)
    if isinstance(expectation, GreatExpectation):
        return _of_table(evidence, expectation, said)
    failed = 0 if said.success else int(said.told.get("unexpected_count", said.told.get("observed_value")) or 0)
    if failed != evidence.failed:
        return TxloomError(
            f"expectation {expectation.id}: SQL finds {evidence.failed} rows that fail and Great Expectations {failed},"
            " on the same versions by the same condition: one of them is wrong, and neither is believed. Open an issue"
        )
    return Verdict(said.success, evidence.checked, failed, evidence.sample, evidence.detail)


def _of_table(evidence: Evidence, expectation: Expectation, said: Outcome) -> Verdict:
    """Return the verdict on a table: rows that fail, or the number that does."""
    if "unexpected_count" in said.told:
        first = [int(number) for number in said.told.get("partial_unexpected_index_list") or ()][:MOST]
        rows = evidence.case.rows if evidence.case is not None else None
        sample = [] if said.success or rows is None else rows().take(first).to_pylist()
        return Verdict(said.success, evidence.checked, int(said.told["unexpected_count"]), sample)
    if said.success:
        return Verdict(said.success, evidence.checked, 0)
    named = checkpoint.columns(expectation)
    observed = "***" if any(map(is_secret, named)) else said.told.get("observed_value")
    about = {"column": ", ".join(named)} if named else {}
    return Verdict(said.success, evidence.checked, 1, [{**about, "observed": observed}], f"observed {observed}")
