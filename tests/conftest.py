"""What several rooms' tests share: one Spark session, and a pipeline of the sample in a folder of its own."""

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pyspark import SparkContext

import running
from drawn import drawn_lines, examples
from selection import shards
from txloom.steps.runner import log_to_output

PROJECT = Path(__file__).resolve().parents[1]

# How fast a machine draws examples says nothing of what is tested. In CI the same ones are drawn in every run, so that
# it says what a change broke; `make test` and `make soak` draw others each time, and what they find stays as a test.
settings.register_profile(
    "txloom",
    max_examples=examples(100),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("txloom")
logging.getLogger("py4j").setLevel(logging.WARNING)
log_to_output()

ALL_IN_OTHER_SHARDS = pytest.StashKey[bool]()

SHUFFLE_PARTITIONS = "1"
"""A cycle of a few rows takes half the time of one with as many as jobs have."""

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""A quarter of a test's processor time went into compiling code that ran once."""
SHORT_QUERIES = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -Xms1g -Xmn500m"


@pytest.fixture
def partitioned(spark: Any) -> Iterator[None]:
    """Let Spark spread what a test does over as many partitions as jobs have."""
    from txloom.storage.spark.session import SETTINGS

    spark.conf.set("spark.sql.shuffle.partitions", SETTINGS["spark.sql.shuffle.partitions"])
    yield
    spark.conf.set("spark.sql.shuffle.partitions", SHUFFLE_PARTITIONS)


@pytest.fixture(params=["in this process", pytest.param("by Spark", marks=pytest.mark.long)])
def spread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test twice: as small runs do, and as large ones do."""
    from lake import leave_to_spark

    if request.param == "by Spark":
        leave_to_spark(monkeypatch)


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """Open the session that jobs open, once for all tests; its JVM starts as that of a short job.

    A test plans many small queries once each: the second compiler costs a third more processor time than it saves, and
    Spark compiles code for a handful of rows. With TXLOOM_COMPILED (`make soak`) it compiles, as jobs do; the tests
    that start jobs as processes of their own always see compiled code.
    """
    os.environ.setdefault("TXLOOM_DRIVER_MEMORY", "3g")
    import in_process
    from txloom.config import jvm
    from txloom.storage.spark.session import SETTINGS, open_session

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setitem(SETTINGS, "spark.sql.shuffle.partitions", SHUFFLE_PARTITIONS)
        monkeypatch.setattr(jvm, "FIRST_COMPILER", f"{jvm.FIRST_COMPILER} {SHORT_QUERIES}")
        for name, value in {} if os.environ.get("TXLOOM_COMPILED") else INTERPRETED.items():
            monkeypatch.setitem(SETTINGS, name, value)
        session = open_session("txloom tests", "tests")
        in_process.replace_streams(monkeypatch)
        gc.collect()
        gc.freeze()
        yield session
    session.stop()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the long tests of other shards, and put the slowest files first."""

    def file(item: pytest.Item) -> str:
        return item.path.as_posix().rpartition("/tests/")[2]

    if shard := shards.chosen_shard():
        others = [
            item for item in items if item.get_closest_marker("long") and not shards.is_in_shard(file(item), *shard)
        ]
        config.hook.pytest_deselected(items=others)
        config.stash[ALL_IN_OTHER_SHARDS] = bool(others) and len(others) == len(items)
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]
    # If the slowest files start first, all workers finish at about the same time.
    items.sort(key=lambda item: shards.rank_of(file(item)))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Pass a run whose tests all belong to other shards: pytest fails a run that has no test."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash.get(ALL_IN_OTHER_SHARDS, False):
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let lakes know the marks of the test that runs, before its fixtures are made."""
    running.MARKS.clear()
    running.MARKS.update(mark.name for mark in item.iter_markers())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what the random lakes of a run drew, so that a reader sees that each operation happens."""
    for line in drawn_lines([dict(report.user_properties) for report in terminalreporter.getreports("passed")]):
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _forgotten_frames(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the JVM forget a test's frames and tables, or its heap fills with their plans.

    Python's own collector comes too seldom; and Delta keeps 8 MB of plans of each table for an hour.
    """
    yield
    context = SparkContext._active_spark_context
    if "spark" in request.fixturenames and context is not None:
        gc.collect()
        context._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


pytest_plugins = ["services.fixtures"]
