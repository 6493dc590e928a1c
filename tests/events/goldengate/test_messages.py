"""What a row message is, written with spaces as people do and without as GoldenGate does: it is the same."""

import json
from typing import Any

import pytest

from events.goldengate.test_decoder import AFTER, GOOD, METADATA, PIPELINE, ROWS
from txloom.events import rejections
from txloom.events.goldengate.decoder import GoldenGateDecoder

SPELLINGS = pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
Separators = tuple[str, str]


def row(separators: Separators, **changed: Any) -> dict[str, Any]:
    """Decode a message with something changed."""
    message = json.dumps({**GOOD, "after": AFTER, **changed}, separators=separators)
    (event,) = GoldenGateDecoder(PIPELINE.tables, METADATA).decode(ROWS, [message.encode()]).to_pylist()
    return dict(event)


@SPELLINGS
def test_a_position_is_a_number_whatever_stands_before_it(separators: Separators) -> None:
    event = row(separators)
    assert (event["identity"], event["pos"], event["csn"]) == ("110009047521", 110009047521, 334516829)
    assert row(separators, pos="110009047521")["identity"] == event["identity"]


@SPELLINGS
@pytest.mark.parametrize("op", ["I", "U", "D"])
def test_a_null_key_is_refused(separators: Separators, op: str) -> None:
    event = row(separators, op_type=op, before={"CODE": None}, after={"CODE": None})
    assert (event["kind"], event["cause"], event["detail"]) == ("poison", rejections.NO_KEY, "code is null")


@SPELLINGS
@pytest.mark.parametrize(
    "changed",
    [{"op_type": "I"}, {"before": {"CODE": "P1", "DISCOUNT": "2"}}, {"after": {"CODE": "P1", "DISCOUNT": "3"}}],
    ids=["operation", "image_before", "image_after"],
)
def test_whatever_differs_in_a_row_is_another_payload(separators: Separators, changed: dict[str, Any]) -> None:
    fields = {"op_type": "U", "before": {"CODE": "P1", "DISCOUNT": "1"}, "after": {"CODE": "P1", "DISCOUNT": "2"}}
    assert row(separators, **fields)["payload"] != row(separators, **fields | changed)["payload"]
