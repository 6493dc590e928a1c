"""The command lines of Kafka's programs."""

from services.fetched import kafka
from txloom.generate.services import java_programs
from txloom.generate.services.java_programs import SMALL, java

__all__ = ["SMALL", "command", "java"]


def command(main: str, *arguments: object) -> list[str]:
    """Return how one of Kafka's classes is started with these arguments."""
    return java_programs.command(kafka(), main, *arguments)
