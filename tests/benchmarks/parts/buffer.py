"""a. Land and buffer: sizes of transactions, beside the Scala reference and beside a program without any rule.

Query seconds count: they begin when the session is open and end when the last table is written. Each program has a
process and a JVM of its own in each round, two cores, and the class archive of a job's JVM; all read the same 16 files.
txloom has a job's memory, the other two 4 GB. The reference takes all files in one micro-batch, as txloom does, under
the flags of a job's JVM, which has the first compiler only, and under those of a long session, which has both; once it
also takes them in four micro-batches. Its fastest way is compared. The limit has both compilers.

What txloom does beyond the reference: it lands every event as it came, keeps decimals, compares contents, and writes
Delta, a ledger and the state of every transaction. What the limit does is said in
`tests/benchmarks/programs/buffer_limit.py`.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark

from benchmarks.measuring import HERE, SCRATCH, Failed, Measured, fresh, made, program, run
from benchmarks.report import Report
from txloom.config import jvm
from txloom.config.project import class_path

SIZES = [int(size) for size in os.environ.get("TXLOOM_BENCH_TRANSACTIONS", "100000,500000").split(",")]
"""Numbers of transactions; TXLOOM_BENCH_TRANSACTIONS names others, such as 2000000, which take half an hour."""
SMALL = 100_000
"""The most transactions of which there are several rounds."""
FILES = 4
"""Files of each topic."""
MEMORY = "4g"
"""The heap of the reference and of the limit."""
MASTER = "local[2]"
REFERENCE = HERE / "reference"
VARIANTS = {
    "reference": ("all", jvm.flags("buffer_transactions")),
    "reference, both compilers": ("all", jvm.flags()),
    "reference, both compilers, four micro-batches": ("1", jvm.flags()),
}
"""How the reference runs: files of each topic that a micro-batch takes, and the flags of its JVM."""


def measure(report: Report, rounds: int) -> None:
    """Measure every size in turns, the larger ones once."""
    jar = _compiled()
    for size in SIZES:
        data = made(f"buffer/{size}", lambda folder, size=size: _generate(folder, size))
        truth = json.loads((data / "truth_data.json").read_text())
        declared = (HERE / "data" / "transactions.yaml").read_text()
        (data / "bench.yaml").write_text(declared.replace("INBOX", str(data / "data")))
        for number in range(rounds if size <= SMALL else 1):
            for variant in list(VARIANTS)[: 2 if number else None]:
                _reference(report, _case(truth), variant, jar, data)
            _txloom(report, truth, data)
            _limit(report, truth, data)
        _goals(report, _case(truth), size)


def _case(truth: Mapping[str, Any]) -> str:
    return f"{truth['N']:,} transactions, {truth['lines']:,} messages"


def _goals(report: Report, case: str, size: int) -> None:
    ours = report.median(case, "txloom")
    best = min(report.median(case, variant) for variant in VARIANTS)
    report.goal(f"{size:,} transactions: reference to txloom", best / ours, at_least=2 if size <= SMALL else 2.5)
    report.goal(f"{size:,} transactions: txloom to the limit", ours / report.median(case, "limit"), at_most=1.5)
    peak = max(each.largest_mb for each in report.runs[case, "txloom"])
    report.goal(f"{size:,} transactions: largest peak of a process, MB", peak, at_most=3072)


def _generate(folder: Path, size: int) -> None:
    run([sys.executable, REFERENCE / "gen.py", size, folder / "data", FILES])


def _compiled() -> Path:
    """Compile the reference once with the Scala compiler that pyspark ships, and return its jar."""
    source = REFERENCE / "Reference.scala"
    jar = SCRATCH / "buffer" / f"reference-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.jar"
    if not jar.is_file():
        shipped = Path(pyspark.__path__[0]) / "jars" / "*"
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
        unfinished = fresh("buffer/unfinished.jar")
        run([java, "-cp", shipped, "scala.tools.nsc.Main", "-usejavacp", "-nowarn", "-d", unfinished, source])
        unfinished.rename(jar)
    return jar


def _reference(report: Report, case: str, variant: str, jar: Path, data: Path) -> None:
    files, flags = VARIANTS[variant]
    out, checkpoint = fresh("buffer/reference/out"), fresh("buffer/reference/checkpoint")
    command: list[Any] = [Path(sys.executable).with_name("spark-submit"), "--master", MASTER]
    command += ["--driver-memory", MEMORY, "--driver-class-path", class_path()]
    command += ["--driver-java-options", flags, "--class", "ref.Main", jar]
    command += ["--data", data / "data", "--out", out, "--ckpt", checkpoint, "--parts", 4, "--files", files]
    measured = run(command)
    report.add(case, variant, measured, measured.result["query_s"])
    lists = [pq.read_table(file, columns=["lineItems"])["lineItems"] for file in sorted(out.glob("*.parquet"))]
    items = sum(pc.sum(pc.list_value_length(column)).as_py() or 0 for column in lists)
    truth = json.loads((data / "truth_data.json").read_text())
    _check(variant, {"rows": sum(map(len, lists)), "line_items": items}, truth, ("rows", "line_items"))


def _txloom(report: Report, truth: Mapping[str, Any], data: Path) -> None:
    warehouse, case = fresh("buffer/warehouse"), _case(truth)
    environment = {"TXLOOM_SPARK_MASTER": MASTER}
    measured = program("land_and_buffer", data / "bench.yaml", warehouse, environment=environment)
    for step in ("land", "buffer"):
        seconds, cpu = (measured.result[f"{step}_{kind}s"] for kind in ("", "cpu_"))
        report.add(case, f"txloom: {step}", Measured(seconds, cpu, measured.peak_mb))
    report.add(case, "txloom", measured, measured.result["query_s"])
    _check("txloom", measured.result, truth, ("lines", "complete", "rows", "line_items", "qty"))


def _limit(report: Report, truth: Mapping[str, Any], data: Path) -> None:
    """Measure the limit; it drops nothing, so that it has at least what is whole."""
    environment = {"TXLOOM_SPARK_MASTER": MASTER, "TXLOOM_DRIVER_MEMORY": MEMORY}
    measured = program("buffer_limit", data / "data", fresh("buffer/limit"), environment=environment)
    report.add(_case(truth), "limit", measured, measured.result["query_s"])
    _check("limit", measured.result, truth, ("lines",))
    if measured.result["rows"] < truth["rows"] or measured.result["line_items"] < truth["line_items"]:
        raise Failed(f"limit: {measured.result} is less than {truth}")


def _check(variant: str, result: Mapping[str, Any], truth: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse a result whose counts are not those of the data."""
    wrong = [f"{name} {result[name]:,} instead of {truth[name]:,}" for name in names if result[name] != truth[name]]
    if wrong:
        raise Failed(f"{variant}: {', '.join(wrong)}")
