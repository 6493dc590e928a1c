"""Pack the Python packages that Spark's executors need, as they are installed here, and txloom itself.

    python scripts/pack_executors.py [FILE]

FILE is `.state/executors.tar.gz` by default. Nothing is fetched: executors get the very versions with which the driver
was tested. Airflow, Spark and Great Expectations stay out: executors have Spark, and need none of the others.
"""

import re
import sys
import tarfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
DRIVER_ONLY = ("apache-airflow", "pyspark", "delta-spark", "great-expectations", "rich", "psycopg2", "asyncpg")
"""What the driver, Airflow or people need alone: packages whose names begin so."""

LEFT_OUT = re.compile(r"__pycache__|/tests/|pyarrow/include/|\.pyi$|libarrow_flight")
"""Files that no task needs: every executor gets the archive with each job."""


def main(arguments: list[str]) -> int:
    """Write the archive and say how large it is."""
    archive = Path(arguments[0]) if arguments else ROOT / ".state" / "executors.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_name(f".{archive.name}")
    with tarfile.open(unfinished, "w:gz", compresslevel=1) as packed:
        for each in needed(roots()):
            add(packed, each)
        packed.add(ROOT / "include" / "txloom", "txloom", filter=_lasting)
    unfinished.replace(archive)
    print(f"{archive}: {archive.stat().st_size >> 20} MB")
    return 0


def roots() -> list[str]:
    """Return the packages of requirements.in that tasks of Spark import."""
    lines = (line.partition("#")[0].strip() for line in (ROOT / "requirements.in").read_text().splitlines())
    return [Requirement(line).name for line in lines if line and not line.startswith(DRIVER_ONLY)]


def needed(names: list[str]) -> list[Distribution]:
    """Return the installed packages of some names, and all that they need."""
    known, open_names = dict[str, Distribution](), [canonicalize_name(name) for name in names]
    while open_names:
        name = open_names.pop()
        if name in known:
            continue
        known[name] = distribution(name)
        needs = [Requirement(text) for text in known[name].requires or ()]
        open_names += [
            canonicalize_name(each.name) for each in needs if each.marker is None or each.marker.evaluate({"extra": ""})
        ]
    return list(known.values())


def add(packed: tarfile.TarFile, package: Distribution) -> None:
    """Add the files of a package that lie in the folder of packages."""
    for file in package.files or ():
        if file.parts[0] != ".." and file.suffix != ".pyc":
            packed.add(str(package.locate_file(file)), str(file), filter=_lasting)


def _lasting(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if LEFT_OUT.search(entry.name) else entry


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
