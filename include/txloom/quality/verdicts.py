"""Turn check inputs into verdicts: whether each declared expectation holds.

For txloom's kinds SQL has already counted the rows that fail. With `judge` a declaration says whether Great
Expectations judges the same rows too: in each cycle, or only where SQL found rows that fail; loading it takes seconds
(ADR 20, 35).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from txloom.config.models.expectations import Expectation, GreatExpectation
from txloom.config.secret_names import is_secret
from txloom.errors import TxloomError
from txloom.quality import checkpoint
from txloom.quality.checkpoint import Case, Outcome
from txloom.quality.masking import MOST


@dataclass(frozen=True)
class CheckInput:
    """What SQL counted on pinned versions of tables, and what Great Expectations judges.

    checked: how many rows were looked at. failed, sample: how many of them fail, and the first of those, for txloom's
    kinds. detail: what people should know beside the rows. case: None where there is nothing to judge.
    """

    checked: int
    failed: int = 0
    sample: list[dict[str, Any]] = field(default_factory=list)
    detail: str | None = None
    case: Case | None = None


@dataclass(frozen=True)
class Verdict:
    """The result of one expectation: how many rows were looked at, how many fail, and the first of those.

    success: None where the expectation was not judged; detail says why.
    """

    success: bool | None
    checked: int
    failed: int
    sample: list[dict[str, Any]] = field(default_factory=list)
    detail: str | None = None


@dataclass(frozen=True)
class Judged:
    """Results of expectations by their ids: a verdict, or the error that says why there is none.

    outcomes: by id, of those that Great Expectations judged.
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
    """Return the verdicts on check inputs; all that Great Expectations judges runs in one Checkpoint.

    Args:
        inputs: expectations with their check inputs.
        suite: the name of the Checkpoint.
        run_id: the run that the results name.
        always: Great Expectations judges also where SQL found nothing that fails.
        referenced: texts that no message may repeat.
    """
    to_run = [
        (each, check_input)
        for each, check_input in inputs
        if check_input.case is not None and (always or not _holds(each, check_input))
    ]
    cases = [check_input.case for _, check_input in to_run if check_input.case is not None]
    outcomes = checkpoint.run(cases, suite=suite, run_id=run_id, referenced=referenced) if cases else {}
    verdicts: dict[str, Verdict | TxloomError] = {
        each.id: Verdict(
            not check_input.failed, check_input.checked, check_input.failed, check_input.sample, check_input.detail
        )
        for each, check_input in inputs
    }
    for expectation, check_input in to_run:
        verdicts[expectation.id] = _verdict(expectation, check_input, outcomes[expectation.id], referenced)
    return Judged(verdicts, {name: each for name, each in outcomes.items() if isinstance(each, Outcome)})


def _holds(expectation: Expectation, check_input: CheckInput) -> bool:
    """Return whether SQL alone shows that an expectation holds: one of txloom's kinds with no row that fails."""
    return not isinstance(expectation, GreatExpectation) and not check_input.failed


def _verdict(
    expectation: Expectation, check_input: CheckInput, outcome: Outcome | TxloomError, referenced: Collection[str]
) -> Verdict | TxloomError:
    if isinstance(outcome, TxloomError):
        return outcome
    if outcome.trouble:
        return checkpoint.shown_trouble(expectation, outcome.trouble, referenced)
    if isinstance(expectation, GreatExpectation):
        return _of_table(check_input, expectation, outcome)
    failed = (
        0 if outcome.success else int(outcome.result.get("unexpected_count", outcome.result.get("observed_value")) or 0)
    )
    if failed != check_input.failed:
        return TxloomError(
            f"expectation {expectation.id}: SQL finds {check_input.failed} rows that fail and Great Expectations "
            f"{failed}, on the same versions by the same condition: one of them is wrong, and no "
            "verdict was recorded. Open an issue"
        )
    return Verdict(outcome.success, check_input.checked, failed, check_input.sample, check_input.detail)


def _of_table(check_input: CheckInput, expectation: Expectation, outcome: Outcome) -> Verdict:
    """Return the verdict on a table: with the failing rows, or with the observed number of a whole column."""
    if "unexpected_count" in outcome.result:
        first = [int(number) for number in outcome.result.get("partial_unexpected_index_list") or ()][:MOST]
        rows = check_input.case.rows if check_input.case is not None else None
        sample = [] if outcome.success or rows is None else rows().take(first).to_pylist()
        return Verdict(outcome.success, check_input.checked, int(outcome.result["unexpected_count"]), sample)
    if outcome.success:
        return Verdict(outcome.success, check_input.checked, 0)
    named = checkpoint.columns(expectation)
    observed = "***" if any(map(is_secret, named)) else outcome.result.get("observed_value")
    about = {"column": ", ".join(named)} if named else {}
    return Verdict(outcome.success, check_input.checked, 1, [{**about, "observed": observed}], f"observed {observed}")
