"""A warehouse for tests: deliver arrivals, run the steps, read every version of every table as plain rows."""

import json
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

import running
from called import step_of
from oracle import capture, comparison, declarations, values
from oracle.state import Source
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.steps.buffer.buffer_transactions import buffer_transactions
from txloom.steps.landing.land_events import land_events
from txloom.steps.merge import rewrite_merge
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.publish.publish import publish
from txloom.storage.delta import arrow_tables, small_merge, small_tables, spark_tables
from txloom.storage.landing import decoding

ORDERS = Path(__file__).resolve().parents[1] / "include" / "pipelines" / "orders.yaml"
STEPS = (land_events, buffer_transactions, merge_current, publish)


@dataclass
class Lake:
    """One pipeline with an inbox and a warehouse of its own."""

    spark: Any
    folder: Path
    pipeline: Pipeline
    runs: int = field(default=0)

    @property
    def inbox(self) -> Path:
        return Path(self.pipeline.source.files.path)

    @property
    def warehouse(self) -> str:
        return str(self.folder / "warehouse")

    def path(self, table: str) -> str:
        return f"{self.warehouse}/{self.pipeline.name}/{table}"

    def deliver(self, *arrivals: Path) -> None:
        """Copy arrivals into the inbox, as a producer would: under a temporary name first."""
        for arrival in arrivals:
            for file in sorted(path for path in arrival.rglob("*") if path.is_file()):
                target = self.inbox / file.parent.name / file.name
                target.parent.mkdir(parents=True, exist_ok=True)
                hidden = target.with_name(f".{target.name}")
                shutil.copyfile(file, hidden)
                hidden.rename(target)

    def run(self, steps: Sequence[Any] = STEPS) -> dict[str, dict[str, int]]:
        """Run steps of one cycle and return the counts of each."""
        self.runs += 1
        done = {}
        for step in steps:
            spark = (lambda: self.spark) if step in (land_events, merge_current) else self.spark
            counts = step(step_of(self.pipeline, self.warehouse, f"run-{self.runs}", spark))
            done[step.__name__] = dict(counts)
        return done

    def version(self, table: str) -> int:
        return int(DeltaTable(self.path(table)).version())

    def rows(self, table: str, version: int | None = None) -> list[dict[str, Any]]:
        """Return a table's rows; values as Python has them, instants in UTC."""
        if not running.is_read_by_spark():
            return plain(arrow_tables.select(self.path(table), "select * from t", version))
        frame = spark_tables.read(self.spark, self.path(table), version).toArrow()
        return plain(frame)

    def query(self, table: str, sql: str) -> list[dict[str, Any]]:
        return small_tables.query(self.path(table), sql)

    def marks(self, table: str) -> Iterator[tuple[int, int]]:
        """Yield (version, valid-through) of every version of a current table."""
        for commit in sorted(DeltaTable(self.path(table)).history(), key=lambda commit: commit["version"]):
            yield commit["version"], int(_mark(commit)["valid_through"])


def _mark(commit: dict[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = json.loads(commit["userMetadata"])
    return about


def plain(frame: pa.Table) -> list[dict[str, Any]]:
    """Turn Arrow rows into Python rows."""
    rows: list[dict[str, Any]] = frame.to_pylist()
    return rows


def new_lake(spark: Any, folder: Path, monkeypatch: Any) -> Lake:
    """Make an empty inbox and warehouse for the shipped declaration, without its expectations.

    What they hold back, and what they do not, is told by tests of their own; a cut with gaps may violate them.
    """
    inbox = folder / "inbox"
    inbox.mkdir(parents=True)
    monkeypatch.setenv("TXLOOM_INBOX", str(inbox))
    return Lake(spark, folder, load(ORDERS).model_copy(update={"expectations": ()}))


def leave_to_spark(monkeypatch: Any) -> None:
    """Let Spark land, work out and write what this process would, few as it is."""
    merge_by_spark(monkeypatch)
    monkeypatch.setattr(decoding, "LOCAL_BYTES", -1)


def merge_by_spark(monkeypatch: Any) -> None:
    """Let Spark work out and write what this process would, few as it is; what it lands stays this process'."""
    monkeypatch.setattr(arrow_tables, "LOCAL_ROWS", -1)
    monkeypatch.setattr(small_merge, "LOCAL_TABLE_BYTES", -1)
    monkeypatch.setattr(rewrite_merge, "REWRITE_BYTES", -1)


def arrivals() -> list[Path]:
    """Return the sample's arrivals."""
    return capture.arrivals()


def shown(lake: Lake, versions: dict[str, int] | None = None) -> dict[str, Any]:
    """Return every mirror and the documents, newest or at the versions of a cut, keyed for `oracle.comparison`."""
    at = versions or {}
    tables_shown = {
        name: comparison.keyed(lake.rows(name, at.get(name)), table.key) for name, table in declarations.TABLES.items()
    }
    tables_shown["documents"] = comparison.keyed(lake.rows("orders_current", at.get("orders_current")), ("order_id",))
    return tables_shown


def expected_state(source: Source, csn: int, excluding: Collection[str] = ()) -> dict[str, Any]:
    """Return the same out of the oracle, as of a csn, without the transactions of listed gaps."""
    state = values.typed_state(source.state_as_of(csn, excluding))
    state_shown = {name: state.get(name, {}) for name in declarations.TABLES}
    state_shown["documents"] = values.typed_documents(source.documents_as_of(csn, excluding))
    return state_shown


def assert_every_cut_is_exact(lake: Lake, source: Source) -> list[dict[str, Any]]:
    """Compare every published cut with the source's state as of its valid-through, without the gaps it lists."""
    cuts = lake.query("cuts", "select * from t order by cut_id")
    for cut in cuts:
        gaps = [gap["xid"] for gap in cut["gaps"]]
        differences = comparison.differences(
            expected_state(source, cut["valid_through"], gaps), shown(lake, cut["versions"])
        )
        assert not differences, f"cut {cut['cut_id']}: {comparison.report(differences)}"
    return cuts
