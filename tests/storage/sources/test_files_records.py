"""Files whose lines are records of a topic: value and headers beside it."""

import json
from typing import Any

import pytest

from txloom.events import rejections
from txloom.events.malformed import Refused
from txloom.storage.sources.files import records

MESSAGE = {"op": "c"}


def record(headers: Any) -> bytes:
    return json.dumps({"value": MESSAGE, "headers": headers}).encode()


@pytest.mark.parametrize(
    "headers",
    [[["a", "1"], ["b", None]], {"a": "1", "b": None}, ["a", "1", "b", None]],
    ids=["pairs", "mapping", "by_turns"],
)
def test_headers_come_in_three_shapes(headers: Any) -> None:
    values, headers_read = records([record(headers)])
    assert (values, headers_read) == ([json.dumps(MESSAGE).encode()], [{"a": "1"}])


@pytest.mark.parametrize("headers", [None, [], {}], ids=repr)
def test_a_record_without_headers_has_none(headers: Any) -> None:
    assert records([record(headers), b'{"value":null}'])[1] == [None, None]


@pytest.mark.parametrize("headers", [5, "abc", [["a"]], ["a"], [1, 2], {"a": 5}, [[["a"], "b"]], True], ids=repr)
def test_headers_that_nobody_can_read_make_the_record_a_dead_letter(headers: Any) -> None:
    (value,), (headers_read,) = records([record(headers)])
    assert isinstance(value, Refused)
    assert (bytes(value), value.cause, headers_read) == (record(headers), rejections.HEADERS, None)


@pytest.mark.parametrize("levels", [1_000, 100_000])
def test_headers_that_are_nested_without_end_make_the_record_a_dead_letter(levels: int) -> None:
    line = b'{"value":{},"headers":' + b"[" * levels + b"]" * levels + b"}"
    (value,), _ = records([line])
    assert value == line


@pytest.mark.parametrize("line", [b"{}", b'{"value":"\\ud800"}', b'{"value":"a', b"\xff", b'{"value":' + b"[" * 9_999])
def test_what_is_no_record_stays_as_it_is_for_its_decoder_to_judge(line: bytes) -> None:
    assert records([line]) == ([line], [None])
