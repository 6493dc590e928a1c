"""Turn the exit code of a failed step into an Airflow error: one that is retried, or one that never is."""

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from txloom import errors

NEVER_RETRY = frozenset(
    kind.exit_code
    for kind in (
        errors.ConfigurationError,
        errors.SourceLost,
        errors.ExpectationFailed,
        errors.ComparisonOutdated,
        errors.LedgerUnbalanced,
        errors.CheckpointDamaged,
    )
)
"""Exit codes after which the same run would end the same way."""


def failure(code: int | None, sentence: str) -> AirflowException:
    """Return the error for a step that ended with an exit code of `txloom.errors`; None: the code is unknown.

    >>> type(failure(2, "no")).__name__, type(failure(12, "no")).__name__
    ('AirflowFailException', 'AirflowException')
    """
    return AirflowFailException(sentence) if code in NEVER_RETRY else AirflowException(sentence)
