"""Where a pipeline's jobs run: what is declared becomes settings of Spark."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from txloom.config.models.spark import Spark


def declared(**given: Any) -> Spark:
    return TypeAdapter(Spark).validate_python(given)


def test_nothing_is_set_that_is_not_declared() -> None:
    assert declared().by_name == {}
    assert (declared().connection, declared().cores, declared().state_groups) == ("spark_default", None, 8)


def test_what_is_declared_becomes_settings_and_others_go_before_them() -> None:
    spark = declared(
        executors=4, executor_cores=2, executor_memory="3g", settings={"spark.cores.max": "6", "spark.x": "y"}
    )
    assert spark.by_name == {
        "spark.executor.memory": "3g",
        "spark.executor.cores": "2",
        "spark.executor.instances": "4",
        "spark.cores.max": "6",
        "spark.x": "y",
    }
    assert spark.cores == 8


def test_executors_without_a_number_of_cores_have_one_each() -> None:
    assert (declared(executors=3).cores, declared(executors=3).by_name["spark.cores.max"]) == (3, "3")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"executor_memory": "4"}, "an amount of memory, such as 512m or 4g"),
        ({"executor_memory": "4 GB"}, "an amount of memory, such as 512m or 4g"),
        ({"state_groups": 12}, "a multiple of 8, up to 9992"),
        ({"state_groups": 0}, "a multiple of 8, up to 9992"),
        ({"executors": 0}, "a whole number above 0"),
    ],
)
def test_what_is_no_amount_is_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        declared(**given)
