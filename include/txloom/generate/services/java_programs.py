"""The command lines of Kafka's programs."""

import os
import shutil
from pathlib import Path

from txloom.generate.services.process import ServiceFailed

SMALL = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING = ("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS")


def java() -> str:
    """Return the java that Spark would start; raises ServiceFailed where there is none."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not path or not Path(path).exists():
        raise ServiceFailed(f"no java: JAVA_HOME is {home or 'not set'}")
    return path


def command(kafka: Path, main: str, *arguments: object) -> list[str]:
    """Return how one of Kafka's classes is started with these arguments; kafka: the folder with `libs`."""
    return [java(), *SMALL, *LOGGING, "-cp", f"{kafka / 'libs'}/*", main, *map(str, arguments)]
