"""How a producer's messages reach the lake: split into landings, doubled, out of order, metadata early or late."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from oracle.capture import Message
from workloads.database import Sent


@dataclass(frozen=True)
class Delivery:
    """Landings of messages; `lost`: csns of transactions of which a row never comes."""

    landings: list[list[Message]]
    lost: frozenset[int]


def deliver(sent: Sequence[Sent], chance: Random, *, in_order: bool, losses: bool = False) -> Delivery:
    """Deliver every message at least once; with in_order the metadata keeps commit order, rows come in any order."""
    spread = chance.choice((0.0, 0.05, 0.3, 1.0))
    lost = frozenset(each.csn for each in sent if losses and each.rows and chance.random() < 0.08)
    timed: list[tuple[float, Message]] = []
    last = 0.0
    for number, each in enumerate(sent):
        at = number / max(len(sent), 1)
        dropped = chance.randrange(len(each.rows)) if each.csn in lost else None
        for place, row in enumerate(each.rows):
            if place != dropped:
                timed.append((at + chance.uniform(-spread, spread), row))
        shift = chance.uniform(-spread, spread)
        last = max(last, at + shift) + 1e-9 if in_order else at + shift
        timed.append((last, each.metadata))
    for at, message in list(timed):
        if chance.random() < 0.1:
            timed.append((at + chance.uniform(0, spread + 0.1), message))
    messages = [message for _, message in sorted(timed, key=lambda pair: pair[0])]
    cuts = sorted(chance.randint(0, len(messages)) for _ in range(chance.randint(0, 6)))
    bounds = [0, *cuts, len(messages)]
    return Delivery([messages[a:b] for a, b in pairwise(bounds)], lost)


def runs(delivery: Delivery, chance: Random) -> Iterator[list[list[Message]]]:
    """Yield the landings that each run of the buffer finds: most often one."""
    found: list[list[Message]] = []
    for landing in delivery.landings:
        found.append(landing)
        if landing is delivery.landings[-1] or chance.random() < 0.7:
            yield found
            found = []
