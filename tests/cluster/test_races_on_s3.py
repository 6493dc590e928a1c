"""Writers of one table on S3, by Spark and by delta-rs, that commit at the same moment: no commit is lost."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import pyarrow as pa
import pytest

from services.cluster.s3 import S3
from txloom.storage.delta import small_tables
from txloom.storage.stores.delta_tables import table_at

pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]
RACES = int(os.environ.get("TXLOOM_RACES", "2"))
SCHEMA = pa.schema([("writer", pa.string()), ("race", pa.int64())])
DRIVER = """
import sys
from txloom.storage.delta.retry import is_conflict
from txloom.storage.spark.session import open_session

writer, path = sys.argv[1:]
spark = open_session(f"driver {writer}", None, path)

def append(race):
    rows = spark.createDataFrame([(writer, race)], "writer string, race long").coalesce(1)
    rows.write.format("delta").mode("append").save(path)

append(-1)
print("ready", flush=True)
for line in sys.stdin:
    for attempt in range(10):
        try:
            append(int(line))
            break
        except Exception as error:
            print(f"refused {attempt} {is_conflict(error)} {str(error).splitlines()[0][:300]}", flush=True)
    print("done", flush=True)
"""


class Driver:
    """A driver of Spark in a process of its own, that appends a row when it is told to."""

    def __init__(self, writer: str, path: str) -> None:
        self.said_before = list[str]()
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, writer, path],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TXLOOM_SPARK_MASTER": "local[1]"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def said(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def wait(self, word: str) -> None:
        for line in self.said:
            if line == f"{word}\n":
                return
            self.said_before.append(line)
        raise AssertionError(f"it ended before it said {word}")

    def race(self, number: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        self.wait("done")

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def path(s3: S3, monkeypatch: pytest.MonkeyPatch) -> str:
    s3.reach(monkeypatch)
    made = f"{s3.bucket('races')}/lake/orders/rows"
    small_tables.ensure(made, SCHEMA)
    return made


@pytest.fixture
def drivers(path: str) -> Iterator[list[Driver]]:
    started = [Driver(writer, path) for writer in ("first", "second")]
    for each in started:
        each.wait("ready")
    yield started
    for each in started:
        each.end()


def test_two_drivers_and_delta_rs_lose_nothing_in_races(path: str, drivers: list[Driver]) -> None:
    """Each writer adds a row in each race; a commit of one must not be in the place of another's."""

    def append(race: int) -> None:
        for _ in range(3):
            small_tables.append(path, [{"writer": "delta-rs", "race": race}], SCHEMA)

    with ThreadPoolExecutor(3) as pool:
        for race in range(RACES):
            for each in [pool.submit(append, race), *(pool.submit(driver.race, race) for driver in drivers)]:
                each.result()
    rows = small_tables.query(path, "select writer, count(*) as n from t where race >= 0 group by 1 order by 1")
    assert {row["writer"]: row["n"] for row in rows} == {"delta-rs": 3 * RACES, "first": RACES, "second": RACES}
    assert table_at(path).version() == 2 + 5 * RACES
    assert not [line for driver in drivers for line in driver.said_before if line.startswith("refused")]
