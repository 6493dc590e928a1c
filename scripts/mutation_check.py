"""Put deliberate wrong rules into a copy of txloom, one at a time; the tests must catch each of them.

    python scripts/mutation_check.py [--only SUBSTRING] [--workers N] [--list]

The wrong rules are in scripts/mutants.txt. Exit codes: 0 all were caught; 1 one survived, so a test is missing; 2 the
check has no result: a wrong rule no longer fits the code, or the tests fail without any.
"""

import argparse
import compileall
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = ROOT / "scripts" / "mutants.txt"
LIBRARY = Path("include/txloom")
DEEP = {"TXLOOM_EXAMPLES": "150", "TXLOOM_WORKLOADS": "2", "TXLOOM_FUZZ": "50"}
"""What tests draw as `make test-all` does: a wrong rule must not survive for want of examples."""
PARTS = ("docs", "include", "tests", "jobs", "scripts", "pyproject.toml")
"""The files and folders that the tests need."""
SECONDS = 120
"""The time limit of one test: a wrong rule may run forever."""

CONFTEST = """
from pathlib import Path

import hypothesis as h

import txloom

assert Path(txloom.__file__).is_relative_to(Path(__file__).parent), f"txloom is imported from {txloom.__file__}"
same = {"derandomize": True, "database": None, "deadline": None, "suppress_health_check": list(h.HealthCheck)}
h.settings.register_profile("mutants", phases=[h.Phase.explicit, h.Phase.generate], **same)
h.settings.load_profile("mutants")
"""
"""The conftest.py of the copy: it tests the copy's txloom, with the same examples each time, and shrinks none of them.
"""


class Untrustworthy(Exception):
    """Why the check has no result about the tests."""


@dataclass(frozen=True)
class Mutant:
    """A wrong rule: its sentence, the file in txloom, the right and the wrong text, and the tests that catch it."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def within(self, code: str) -> str:
        """Return code with the wrong rule in it; raises Untrustworthy unless the right text occurs exactly once.

        >>> Mutant("order is lost", "a.py", "sorted(x)", "x", ()).within("return sorted(x)")
        'return x'
        """
        if (count := code.count(self.before)) != 1:
            raise Untrustworthy(
                f"mutant {self.name!r}: {self.before!r} stands {count} times in {LIBRARY / self.file}, expected once"
            )
        return code.replace(self.before, self.after)


def mutants() -> list[Mutant]:
    """Return the wrong rules in mutants.txt.

    `=` has the file and tests, `-` the right text; then each rule has its sentence behind `#` and its text behind `+`.
    """
    mutants_read: list[Mutant] = []
    fields: dict[str, str] = {}
    for line in filter(None, MUTANTS.read_text().splitlines()):
        fields[line[0]] = line[2:]
        if line[0] == "+":
            file, *tests = fields["="].split()
            mutants_read.append(Mutant(fields["#"], file, fields["-"], fields["+"], tuple(tests)))
    return mutants_read


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the chosen mutants, print which were caught, and return the exit code."""
    parser = argparse.ArgumentParser(description="Put wrong rules into a copy of txloom; the tests must catch each.")
    parser.add_argument("--only", metavar="SUBSTRING", default="", help="only mutants with this in name or file")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many are tried at a time")
    parser.add_argument("--list", action="store_true", help="name the mutants and end")
    options = parser.parse_args(arguments)
    text = options.only.lower()
    chosen = [mutant for mutant in mutants() if text in f"{mutant.file}: {mutant.name}".lower()]
    if options.list:
        print(*(f"{mutant.file}: {mutant.name}" for mutant in chosen), sep="\n")
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="txloom-mutants-") as folder:
            return check(chosen, [Path(folder) / str(number) for number in range(max(1, options.workers))])
    except Untrustworthy as reason:
        print(f"txloom: {reason}", file=sys.stderr)
        return 2


def check(chosen: Sequence[Mutant], folders: Sequence[Path]) -> int:
    """Try mutants in parallel, one at a time in each copy of the project; return the exit code.

    Raises Untrustworthy where a mutant does not fit the code, or tests fail without one.
    """
    if not chosen:
        raise Untrustworthy("no mutant has that in its name; --list names them all")
    copy(folders[0])
    for mutant in chosen:
        mutant.within((folders[0] / LIBRARY / mutant.file).read_text())
    begun = time.monotonic()
    tests = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    whole = run(folders[0], tests)
    if whole.returncode:
        raise Untrustworthy(f"the tests fail without any mutant:\n{whole.stdout}")
    print(f"[mutants] {len(tests)} files of tests pass as they should, {time.monotonic() - begun:.0f} s", flush=True)
    free = queue.SimpleQueue[Path]()
    free.put(folders[0])
    for folder in folders[1:]:
        copy(folder)
        free.put(folder)

    def is_caught(mutant: Mutant) -> bool:
        folder = free.get()
        try:
            return caught(folder, mutant)
        finally:
            free.put(folder)

    pool = ThreadPoolExecutor(len(folders))
    try:
        survived = sum(not each for each in pool.map(is_caught, chosen))
    finally:
        pool.shutdown(cancel_futures=True)
    print(f"[mutants] {len(chosen) - survived} of {len(chosen)} caught, {time.monotonic() - begun:.0f} s in all")
    return 1 if survived else 0


def copy(folder: Path) -> None:
    """Copy what the tests need, without byte code and the files of a running pipeline.

    Byte code in the copy is validated by a hash of the source, not by its time: a mutant may have the same second and
    size.
    """
    folder.mkdir()
    for part in PARTS:
        if (ROOT / part).is_file():
            shutil.copyfile(ROOT / part, folder / part)
        else:
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "inbox"))
    (folder / "conftest.py").write_text(CONFTEST)
    compileall.compile_dir(folder / LIBRARY, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)


def caught(folder: Path, mutant: Mutant) -> bool:
    """Put one mutant into the copy, run its tests, remove it; print and return whether a test failed."""
    file, begun = folder / LIBRARY / mutant.file, time.monotonic()
    right = file.read_text()
    file.write_text(mutant.within(right))
    try:
        done = run(folder, mutant.tests)
    finally:
        file.write_text(right)
    failed = re.search(r"^FAILED (.+?)( - |$)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1) or (done.returncode == 1 and failed is None):
        raise Untrustworthy(
            f"mutant {mutant.name!r}: pytest ended with {done.returncode}, no test failed\n{done.stdout}"
        )
    verdict, by = ("caught  ", f" [{failed[1]}]") if failed else ("SURVIVED", "")
    print(f"[mutants] {verdict} {time.monotonic() - begun:5.1f} s  {mutant.name}{by}", flush=True)
    return failed is not None


def run(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of the copy in their order, up to the first that fails; no byte code of a mutant is written."""
    options = ["-x", "-q", "-n0", "--random-order-bucket=none", f"--timeout={SECONDS}"]
    variables = {"PYTHONPATH": str(folder / "include"), "PYTHONDONTWRITEBYTECODE": "1"}
    there = {"TXLOOM_JARS": str(ROOT / "jars"), "TXLOOM_KAFKA": str(ROOT / ".state" / "kafka")}
    environment = {**there, **DEEP, **os.environ, **variables}
    command = [sys.executable, "-m", "pytest", *options, *tests]
    out, err = subprocess.PIPE, subprocess.STDOUT
    return subprocess.run(command, cwd=folder, env=environment, stdout=out, stderr=err, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
