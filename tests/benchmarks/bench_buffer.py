"""Land and buffer the same transactions with txloom and with the reference, in turns, and compare query seconds.

    make bench
    TXLOOM_BENCH_TRANSACTIONS=500000 TXLOOM_BENCH_ROUNDS=5 python tests/benchmarks/bench_buffer.py

Query seconds begin when the session is open and end when the last table is written; JVM start and checks are outside.
The reference takes the four files of each topic in one availableNow query of four micro-batches; txloom takes all of
them in one run of land_events and one of buffer_transactions. Both run in a JVM of their own each round, with the same
memory and cores; txloom with the flags and the class archive that its jobs have, the reference with Spark's defaults
(TXLOOM_BENCH_REFERENCE_FLAGS tries others). What txloom does beyond: it lands every event as it came, keeps decimals,
compares payloads, writes Delta, a ledger, and the state of every transaction.

Exit code 0: every round was right and txloom at least TXLOOM_BENCH_WANTED (1.3) times as fast. 1: otherwise.
"""

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
REFERENCE = HERE / "reference"
SCRATCH = PROJECT / ".state" / "bench"
TRANSACTIONS = int(os.environ.get("TXLOOM_BENCH_TRANSACTIONS", "100000"))
ROUNDS = int(os.environ.get("TXLOOM_BENCH_ROUNDS", "3"))
EXPECTED = float(os.environ.get("TXLOOM_BENCH_WANTED", "1.3"))
MEMORY = "4g"
ARRIVALS = 4


def generate() -> tuple[Path, dict[str, Any]]:
    """Make the data once and return its folder and what is true of it."""
    data, truth = SCRATCH / f"t{TRANSACTIONS}", SCRATCH / f"truth_t{TRANSACTIONS}.json"
    if not truth.is_file():
        say(f"generating {TRANSACTIONS:,} transactions")
        run([sys.executable, REFERENCE / "gen.py", str(TRANSACTIONS), data, str(ARRIVALS)])
    known: dict[str, Any] = json.loads(truth.read_text())
    return data, known


def compile_reference() -> Path:
    """Compile the reference once with the Scala compiler that pyspark ships."""
    import pyspark

    source = REFERENCE / "Reference.scala"
    jar = SCRATCH / f"reference-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.jar"
    if not jar.is_file():
        say("compiling the reference")
        shipped = Path(pyspark.__file__).parent / "jars" / "*"
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
        unfinished = jar.with_suffix(".new.jar")
        run([java, "-cp", shipped, "scala.tools.nsc.Main", "-usejavacp", "-nowarn", "-d", unfinished, source])
        unfinished.rename(jar)
    return jar


def run_reference(jar: Path, data: Path) -> dict[str, Any]:
    """Run the reference once, with its best setting, and count what it wrote."""
    out, checkpoint = fresh("reference/out"), fresh("reference/checkpoint")
    submit = [Path(sys.executable).with_name("spark-submit"), "--master", "local[2]", "--driver-memory", MEMORY]
    submit += ["--driver-java-options", os.environ.get("TXLOOM_BENCH_REFERENCE_FLAGS", "")]
    flags = ["--data", data, "--out", out, "--ckpt", checkpoint, "--parts", "4"]
    result = result_of(run([*submit, "--class", "ref.Main", jar, *flags]))
    return {**result, **count_parquet(out)}


def count_parquet(folder: Path) -> dict[str, Any]:
    """Count documents and line items in the reference's output."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    lists = [pq.read_table(file, columns=["lineItems"])["lineItems"] for file in sorted(folder.glob("*.parquet"))]
    return {
        "rows": sum(len(column) for column in lists),
        "line_items": sum(pc.sum(pc.list_value_length(column)).as_py() or 0 for column in lists),
    }


def run_ours(data: Path) -> dict[str, Any]:
    """Run txloom once."""
    changes = {
        "TXLOOM_BENCH_DATA": str(data),
        "TXLOOM_DRIVER_MEMORY": MEMORY,
        "TXLOOM_SPARK_MASTER": "local[2]",
    }
    return result_of(run([sys.executable, HERE / "ours.py", fresh("ours/warehouse")], changes))


def run(command: list[Any], changes: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it printed; end with its last lines when it fails."""
    ran = subprocess.run(
        list(map(str, command)), env={**os.environ, **(changes or {})}, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        said = [line for line in ran.stderr.splitlines() if " INFO " not in line]
        sys.exit(f"{Path(command[0]).name} ended with {ran.returncode}:\n" + "\n".join(said[-20:]))
    return ran.stdout


def result_of(printed: str) -> dict[str, Any]:
    """Return what a run printed after RESULT."""
    line = next(line for line in printed.splitlines() if line.startswith("RESULT "))
    result: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return result


def fresh(name: str) -> Path:
    """Return the name of a folder that is not there."""
    shutil.rmtree(SCRATCH / name, ignore_errors=True)
    (SCRATCH / name).parent.mkdir(parents=True, exist_ok=True)
    return SCRATCH / name


def wrong(result: Mapping[str, Any], truth: Mapping[str, Any]) -> list[str]:
    """Say which counts differ from the truth; a count that a run does not give is not compared."""
    expected = {"released": truth["complete"], **{name: truth[name] for name in ("rows", "line_items", "qty")}}
    return [
        f"{name} {result[name]:,} instead of {value:,}"
        for name, value in expected.items()
        if name in result and result[name] != value
    ]


def say(text: str) -> None:
    """Show a line at once."""
    print(text, flush=True)


def main() -> int:
    """Run the rounds and return the exit code."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    data, truth = generate()
    jar = compile_reference()
    say(f"{TRANSACTIONS:,} transactions, {truth['lines']:,} messages, {ROUNDS} rounds in turns, query seconds:")
    seconds: dict[str, list[float]] = {"reference": [], "txloom": []}
    mistakes = []
    for number in range(1, ROUNDS + 1):
        results = {"reference": run_reference(jar, data), "txloom": run_ours(data)}
        for name, result in results.items():
            seconds[name].append(result["query_s"])
            mistakes += [f"round {number}, {name}: {mistake}" for mistake in wrong(result, truth)]
        ours = results["txloom"]
        say(
            f"  round {number}: reference {results['reference']['query_s']:6.1f}   txloom {ours['query_s']:6.1f}"
            f" (land {ours['land_s']:.1f}, buffer {ours['buffer_s']:.1f}), released {ours['released']:,}"
        )
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = medians["reference"] / medians["txloom"]
    for mistake in mistakes:
        say(f"  WRONG {mistake}")
    say(
        f"  median:  reference {medians['reference']:6.1f}   txloom {medians['txloom']:6.1f}   "
        f"txloom is {ratio:.2f} times as fast (wanted: {EXPECTED})"
    )
    return 0 if ratio >= EXPECTED and not mistakes else 1


if __name__ == "__main__":
    sys.exit(main())
