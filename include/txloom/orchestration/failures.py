"""What a failed step becomes in Airflow: a task that is tried again, or one that never is."""

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from txloom import errors

NEVER_RETRY = frozenset(
    kind.exit_code
    for kind in (
        errors.ConfigurationError,
        errors.SourceLost,
        errors.HistoryLost,
        errors.ExpectationFailed,
        errors.ComparisonOutdated,
        errors.LedgerUnbalanced,
        errors.CheckpointDamaged,
    )
)
"""Exit codes after which the same run would end the same way."""


def failure(code: int | None, sentence: str) -> AirflowException:
    """Return the error of a step that ended with an exit code of `txloom.errors`; None: nobody knows which.

    >>> type(failure(2, "no")).__name__, type(failure(12, "no")).__name__
    ('AirflowFailException', 'AirflowException')
    """
    return AirflowFailException(sentence) if code in NEVER_RETRY else AirflowException(sentence)
