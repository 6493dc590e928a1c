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
class CheckInput:
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
    inputs: Sequence[tuple[Expectation, CheckInput]],
    *,
    suite: str,
    run_id: str,
    always: bool,
    referenced: Collection[str] = (),
) -> Judged:
    """Judge evidence, all that Great Expectations judges in one Checkpoint.

    always: Great Expectations judges also what SQL finds to hold. referenced: texts that no message may repeat.
    """
    to_run = [
        (each, check_input)
        for each, check_input in inputs
        if check_input.case is not None and (always or not _holds(each, check_input))
    ]
    cases = [check_input.case for _, check_input in to_run if check_input.case is not None]
    said = checkpoint.run(cases, suite=suite, run_id=run_id, referenced=referenced) if cases else {}
    verdicts: dict[str, Verdict | TxloomError] = {
        each.id: Verdict(
            not check_input.failed, check_input.checked, check_input.failed, check_input.sample, check_input.detail
        )
        for each, check_input in inputs
    }
    for expectation, check_input in to_run:
        verdicts[expectation.id] = _verdict(expectation, check_input, said[expectation.id], referenced)
    return Judged(verdicts, {name: each for name, each in said.items() if isinstance(each, Outcome)})


def _holds(expectation: Expectation, check_input: CheckInput) -> bool:
    """Say whether SQL alone can tell that an expectation holds."""
    return not isinstance(expectation, GreatExpectation) and not check_input.failed


def _verdict(
    expectation: Expectation, check_input: CheckInput, said: Outcome | TxloomError, referenced: Collection[str]
) -> Verdict | TxloomError:
    if isinstance(said, TxloomError):
        return said
    if said.trouble:
        return checkpoint.shown_trouble(expectation, said.trouble, referenced)
    if isinstance(expectation, GreatExpectation):
        return _of_table(check_input, expectation, said)
    failed = 0 if said.success else int(said.result.get("unexpected_count", said.result.get("observed_value")) or 0)
    if failed != check_input.failed:
        return TxloomError(
            f"expectation {expectation.id}: SQL finds {check_input.failed} rows that fail and Great Expectations "
            f"{failed}, on the same versions by the same condition: one of them is wrong, and neither is "
            "believed. Open an issue"
        )
    return Verdict(said.success, check_input.checked, failed, check_input.sample, check_input.detail)


def _of_table(check_input: CheckInput, expectation: Expectation, said: Outcome) -> Verdict:
    """Return the verdict on a table: rows that fail, or the number that does."""
    if "unexpected_count" in said.result:
        first = [int(number) for number in said.result.get("partial_unexpected_index_list") or ()][:MOST]
        rows = check_input.case.rows if check_input.case is not None else None
        sample = [] if said.success or rows is None else rows().take(first).to_pylist()
        return Verdict(said.success, check_input.checked, int(said.result["unexpected_count"]), sample)
    if said.success:
        return Verdict(said.success, check_input.checked, 0)
    named = checkpoint.columns(expectation)
    observed = "***" if any(map(is_secret, named)) else said.result.get("observed_value")
    about = {"column": ", ".join(named)} if named else {}
    return Verdict(said.success, check_input.checked, 1, [{**about, "observed": observed}], f"observed {observed}")
