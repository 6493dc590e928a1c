"""Spark merges keys of every type to the very tables and findings that this process does."""

from pathlib import Path
from typing import Any

import pytest

from lake import leave_to_spark
from steps.merge.keyed import Keyed, workload
from steps.merge.test_local_merge_any_keys import no_spark


def test_spark_merges_keys_of_every_type_to_the_same_tables(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late truncates and late inserts that lack a column are among the changes."""
    tables = ["by_decimal38_10", "by_decimal_and_text", "by_string", "by_timestamp"]
    made = workload(tables, 4, releases=2)
    here, there = (Keyed(tmp_path / name, tables, ["by_decimal_and_text"]) for name in ("here", "there"))
    for lake in (here, there):
        lake.release(made.releases[0])
        lake.merge(no_spark)
        lake.release(made.releases[1])
    here.merge(no_spark)
    leave_to_spark(monkeypatch)
    there.merge(lambda: spark)
    assert there.content() == here.content()
    assert {table: there.rows(table) for table in tables} == {table: made.worlds[table].rows for table in tables}
