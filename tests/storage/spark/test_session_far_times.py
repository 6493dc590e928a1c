"""Times that no 64 bits of nanoseconds hold, such as the year 9999 for "without end", by Spark and in this process."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from called import step_of
from lake import merge_by_spark
from shop import Shop, insert, update
from txloom.steps.backfill.backfill import backfill
from txloom.storage.delta import arrow_tables
from txloom.storage.spark import session

pytestmark = pytest.mark.session
TABLES = """
tables:
  - {name: prices, source: APP.PRICES, key: [id], columns: {id: long, until: timestamptz, local: timestamp}}
  - {name: lines, source: APP.LINES, key: [line], columns: {line: long, id: long, until: timestamptz, local: timestamp}}
targets:
  mirrors: ["*"]
  aggregates: [{name: documents, root: prices, children: [{table: lines, as: lines, relation: many, parent_key: [id]}]}]
"""
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


def texts(moment: datetime) -> dict[str, str]:
    plain = moment.replace(tzinfo=None).isoformat(" ", "microseconds")
    return {"until": f"{plain}+00:00", "local": plain}


def values(moment: datetime) -> tuple[datetime, datetime]:
    return moment, moment.replace(tzinfo=None)


def backfilled(spark: Any, shop: Shop, *tasks: str) -> dict[str, dict[str, int]]:
    """Run tasks of one backfill; return the counts of each."""
    step = step_of(shop.pipeline, shop.warehouse, "b1", lambda: spark)
    return {task: dict(backfill(step, task)) for task in tasks}


@pytest.mark.long
def test_what_spark_wrote_this_process_reads_and_merges_as_it_is(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path, TABLES)
    with monkeypatch.context() as large:
        merge_by_spark(large)
        shop.commit(10, *[insert("prices", id=n, **texts(at)) for n, at in enumerate((FIRST, LAST))])
        shop.commit(20, insert("lines", line=1, id=1, **texts(LAST)))
        shop.run()
        compared = backfilled(spark, shop, "rebuild", "compare")["compare"]
        assert (compared["changes"], compared["surplus"]) == (0, 0)
    shop.commit(30, update("prices", {"id": 0}, id=0, **texts(LAST)), insert("prices", id=2, **texts(FIRST)))
    shop.run()
    names = ("id", "until", "local")
    assert shop.shown("prices", *names) == [(0, *values(LAST)), (1, *values(LAST)), (2, *values(FIRST))]
    (document,) = shop.query("documents_current", "select * from t where id = 1")
    (line,) = document["lines"]
    assert (document["until"], line["until"], line["local"]) == (LAST, *values(LAST))


@pytest.mark.long
def test_an_instant_of_year_1_is_a_key_in_spark_too(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQL Server's least datetimeoffset; Python makes no local time of it, wherever it runs."""
    keyed = TABLES[: TABLES.index("  aggregates")].replace("key: [id]", "key: [until, id]")
    shop = Shop(spark, tmp_path, keyed)
    merge_by_spark(monkeypatch)
    shop.commit(10, *[insert("prices", id=n, **texts(at)) for n, at in enumerate((FIRST, LAST))])
    shop.run()
    counts = backfilled(spark, shop, "rebuild", "compare", "apply")
    assert (counts["compare"]["changes"], counts["compare"]["surplus"]) == (0, 0)
    assert shop.shown("prices", "id", "until", "local") == [(0, *values(FIRST)), (1, *values(LAST))]


def test_a_backfill_repairs_what_another_program_or_an_older_version_wrote(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/operations.md says: current tables alone, because histories are written by this process' own writer."""
    shop = Shop(spark, tmp_path, TABLES[: TABLES.index("  aggregates")])
    name = "spark.sql.parquet.outputTimestampType"
    spark.conf.set(name, "INT96")
    try:
        with monkeypatch.context() as large:
            merge_by_spark(large)
            shop.commit(10, *[insert("prices", id=n, **texts(at)) for n, at in enumerate((FIRST, LAST))])
            shop.run()
    finally:
        spark.conf.set(name, session.SETTINGS[name])
    path = str(Path(shop.warehouse, "shop", "prices"))
    wrong = arrow_tables.select(path, "select until from t").column("until").to_pylist()
    assert {each.year for each in wrong} == {1754, 1816}, "delta-rs reads 96 bits right now: ADR 4 can be shorter"
    counts = backfilled(spark, shop, "rebuild", "compare", "apply", "drop")
    assert (counts["compare"]["changes"], counts["compare"]["surplus"]) == (2, 0)
    assert shop.shown("prices", "id", "until", "local") == [(0, *values(FIRST)), (1, *values(LAST))]
    assert arrow_tables.select(path, "select min(until) as a, max(until) as b from t").to_pylist() == [
        {"a": FIRST, "b": LAST}
    ]
