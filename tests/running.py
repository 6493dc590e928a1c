"""Which marks the test has that runs: they decide how much of a lake's steps Spark does."""

MARKS: set[str] = set()


def by_stream() -> bool:
    """Say whether the buffer is to run as a stream of Spark's."""
    return "stream" in MARKS


def by_session() -> bool:
    """Say whether Spark is to make dead letters: with a stream it does too."""
    return by_stream() or is_read_by_spark()


def is_read_by_spark() -> bool:
    """Say whether Spark is to read a lake's tables; else they are read in this process."""
    return "session" in MARKS
