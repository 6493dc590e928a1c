"""Rows and documents are found by keys of every type; `test_spark_merge_any_keys` compares with Spark."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from steps.merge.keyed import KEYS, Keyed, workload
from txloom.config.models.column_types import KEYLESS, SPARK_TYPES


def no_spark() -> Any:
    raise AssertionError("a small merge opened a Spark session")


def test_there_is_a_table_for_every_type_that_may_be_a_key() -> None:
    kinds = {kind.partition("(")[0] for key_types in KEYS.values() for kind in key_types}
    assert kinds == {"decimal", *SPARK_TYPES} - set(KEYLESS)


@settings(max_examples=examples(25), deadline=None)
@given(st.sampled_from(sorted(KEYS)), st.integers(0, 2**32))
def test_rows_and_documents_are_the_sources_whatever_type_their_key_has(
    tmp_path_factory: Any, table: str, seed: int
) -> None:
    made, lake = workload([table], seed), Keyed(tmp_path_factory.mktemp("keys"), [table])
    for released in made.releases:
        lake.release(released)
        lake.merge(no_spark)
    assert lake.rows(table) == made.worlds[table].rows
    assert lake.lines(table) == made.worlds[table].lines()
