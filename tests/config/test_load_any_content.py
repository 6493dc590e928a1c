"""Whatever a file holds, it is a pipeline or it is refused in words: nothing else ever comes out of `load`."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import examples
from txloom.config import load
from txloom.config.models.pipeline import Pipeline
from txloom.errors import ConfigurationError

Declared = Callable[..., Path]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.sampled_from(
        [
            "orders",
            "items",
            "order_id",
            "item_no",
            "tags",
            "*",
            "t_{1..3}",
            "A.{name}",
            "",
            "${X:-orders}",
            "${NOPE}",
            "30m",
            "counts",
        ]
    ),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container of a declaration with each of its keys."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from places(value[key])


@pytest.fixture
def outcome(declared: Declared) -> Callable[[str], Pipeline | list[str]]:
    def read(text: str) -> Pipeline | list[str]:
        try:
            return load(declared(text=text))
        except ConfigurationError as error:
            return str(error).splitlines()

    return read


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_declaration_with_anything_anywhere_is_loaded_or_refused(
    data: st.DataObject, outcome: Callable[[str], Pipeline | list[str]], declared: Declared
) -> None:
    content = copy.deepcopy(yaml.load(declared().read_text(), yaml.BaseLoader))
    for _ in range(data.draw(st.integers(1, 4))):
        container, key = data.draw(st.sampled_from(list(places(content))))
        if data.draw(st.booleans()):
            container[key] = data.draw(values)
        else:
            del container[key]
    result = outcome(yaml.safe_dump(content, allow_unicode=True))
    assert isinstance(result, Pipeline) or all(line.startswith("shop.yaml:") for line in result)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.sampled_from("ab: -[]{}'\"\n#&*!|>%@`,?\t~0\x00é"), max_size=40))
def test_any_text_is_loaded_or_refused(text: str, outcome: Callable[[str], Pipeline | list[str]]) -> None:
    result = outcome(text)
    assert isinstance(result, list) and all(line.startswith("shop.yaml:") for line in result)
