"""The collector of cycles rests while messages are decoded and images are read, and works again after that."""

import gc
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Any

import pytest

from events.fuzz.sources import PIPELINES
from txloom.events.formats import SourceDecoder
from txloom.events.garbage_collector import paused
from txloom.events.images.reader import ImageReader

PIPELINE = PIPELINES["goldengate"]


class Noting(list[bytes]):
    """Messages that note, whenever one of them is read, whether the collector works."""

    def __init__(self, values: Sequence[bytes]) -> None:
        super().__init__(values)
        self.noted = list[bool]()

    def __iter__(self) -> Any:
        for value in super().__iter__():
            self.noted.append(gc.isenabled())
            yield value


def decode(values: Sequence[bytes]) -> None:
    SourceDecoder(PIPELINE).decode("orders", values)


def read(values: Sequence[bytes]) -> None:
    ImageReader(PIPELINE.tables[0]).read(values)


@pytest.mark.parametrize("call", [decode, read])
def test_nothing_is_collected_while_messages_are_read(call: Callable[[Sequence[bytes]], None]) -> None:
    values = Noting([b'{"op_type":"I","after":{"ID":1}}', b"{"])
    call(values)
    assert values.noted and not any(values.noted)
    assert gc.isenabled()


def test_what_fails_within_a_pause_ends_it() -> None:
    with pytest.raises(ValueError, match="no"), paused():
        raise ValueError("no")
    assert gc.isenabled()


def test_a_pause_within_a_pause_does_not_end_it() -> None:
    with paused():
        with paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_works_again_when_the_last_thread_is_through() -> None:
    begun, may_end = Event(), Event()

    def work() -> None:
        with paused():
            begun.set()
            may_end.wait(10)

    with paused():
        other = Thread(target=work)
        other.start()
        assert begun.wait(10)
    assert not gc.isenabled()
    may_end.set()
    other.join()
    assert gc.isenabled()
