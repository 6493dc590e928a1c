"""Everything that txloom raises on purpose, and the exit code that a job ends with.

TxloomError                 1   something unforeseen
|-- ConfigurationError      2   the declaration is wrong: repair the YAML, a retry cannot help
|-- BeyondValidThrough      3   a reader asked for a state that is not complete yet: ask again later
|-- BeforeHistory           4   a reader asked for a state that is older than what history keeps: ask for a newer one
|-- CutReplaced             5   a table of a cut was written anew since: its versions are others, read a newer cut
|-- LeaseTaken             10   another run holds the stream: retry soon
|-- WriteConflict          11   Delta rejected a commit because another writer came first: retry soon
|-- SourceUnavailable      12   the source folder or broker cannot be read: retry soon
|-- SourceLost             13   records were lost before they were landed: never retry, load a snapshot or accept it
|-- TablesFailed           14   some tables could not be merged, the others were: retry soon
|-- MessageUnsent          15   an incident could not be reported over every channel: retry soon
|-- ExpectationFailed      20   data is safe, but an expectation with severity `block` failed
|-- ComparisonOutdated     21   live tables changed since a backfill compared them: begin it anew
|-- LedgerUnbalanced       30   events landed and events accounted for differ: never retry, look
`-- CheckpointDamaged      40   the buffer's state cannot be trusted: never retry, start a new checkpoint epoch
"""

import re

_COLORING = re.compile("\x1b\\[[0-9;]*m")


class TxloomError(Exception):
    """The base of all errors that txloom raises on purpose."""

    exit_code = 1


class ConfigurationError(TxloomError):
    """The declaration is wrong; the message names file and line."""

    exit_code = 2


class BeyondValidThrough(TxloomError):
    """A reader asked for a state above valid-through."""

    exit_code = 3


class BeforeHistory(TxloomError):
    """A reader asked for a state of which history does not have all rows."""

    exit_code = 4


class CutReplaced(TxloomError):
    """A table that a cut names was written anew since, so that its versions are those of another table."""

    exit_code = 5


class LeaseTaken(TxloomError):
    """Another run of the same stream holds the lease."""

    exit_code = 10


class WriteConflict(TxloomError):
    """Another writer committed first."""

    exit_code = 11


class SourceUnavailable(TxloomError):
    """The source cannot be read now."""

    exit_code = 12


class SourceLost(TxloomError):
    """Records of the source are lost, so that a landing would skip them."""

    exit_code = 13


class TablesFailed(TxloomError):
    """Some tables could not be merged; the message names each with its error."""

    exit_code = 14


class MessageUnsent(TxloomError):
    """A channel did not take a message about an incident."""

    exit_code = 15


BETWEEN_EXPECTATIONS = " | "
"""The separator between the expectations that one sentence names."""


class ExpectationFailed(TxloomError):
    """An expectation with severity `block` failed."""

    exit_code = 20


class ComparisonOutdated(TxloomError):
    """Live tables changed since a backfill compared them with the rows that it rebuilt."""

    exit_code = 21


class LedgerUnbalanced(TxloomError):
    """Events landed and events accounted for differ."""

    exit_code = 30


class CheckpointDamaged(TxloomError):
    """The buffer's checkpoint cannot be trusted."""

    exit_code = 40


def message_of(step: str, error: Exception) -> str:
    """Return the sentence with which a step fails, with the error's class and exit code.

    The text of an error that txloom did not raise is put on one line, because a task's error shows only one.

    >>> message_of("publish", OSError("storage error\\n  no space left on device"))
    'txloom publish failed (OSError, exit code 1): storage error no space left on device'
    >>> message_of("publish", LeaseTaken("run r1 holds it"))
    'txloom publish failed (LeaseTaken, exit code 10): run r1 holds it'
    """
    code = error.exit_code if isinstance(error, TxloomError) else TxloomError.exit_code
    text = str(error) if isinstance(error, TxloomError) else " ".join(_COLORING.sub("", str(error)).split())
    return f"txloom {step} failed ({type(error).__name__}, exit code {code}): {text}"
