"""How a producer's messages reach the lake: split into landings, doubled, out of order, metadata early or late."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from oracle.capture import Message
from workloads.sources.database import Sent


@dataclass(frozen=True)
class Delivery:
    """Landings of messages; `lost`: csns of transactions of which a row never comes."""

    landings: list[list[Message]]
    lost: frozenset[int]


def deliver(sent: Sequence[Sent], chance: Random, *, in_order: bool, losses: bool = False) -> Delivery:
    """Deliver every message at least once; with in_order the metadata keeps commit order, rows come in any order.

    With in_order, a message that no metadata counts (a TRUNCATE from MySQL) arrives before the metadata of later
    commits. If such a message arrived later, cuts would lack the message until the next cut amends these cuts.
    """
    spread = chance.choice((0.0, 0.05, 0.3, 1.0))
    lost = frozenset(each.csn for each in sent if losses and each.rows and chance.random() < 0.08)
    timed: list[tuple[float, Message]] = []
    last = 0.0
    for number, each in enumerate(sent):
        at = number / max(len(sent), 1)
        dropped = chance.randrange(len(each.rows)) if each.csn in lost else None
        for position, row in enumerate(each.rows):
            if position != dropped:
                comes = at + chance.uniform(-spread, spread)
                timed.append((min(comes, last) if in_order and each.metadata is None else comes, row))
        shift = chance.uniform(-spread, spread)
        last = max(last, at + shift) + 1e-9 if in_order else at + shift
        if each.metadata is not None:
            timed.append((last, each.metadata))
    for at, message in list(timed):
        if chance.random() < 0.1:
            timed.append((at + chance.uniform(0, spread + 0.1), message))
    messages = [message for _, message in sorted(timed, key=lambda pair: pair[0])]
    cuts = sorted(chance.randint(0, len(messages)) for _ in range(chance.randint(0, 6)))
    bounds = [0, *cuts, len(messages)]
    return Delivery([messages[a:b] for a, b in pairwise(bounds)], lost)


def deliver_in_turn(sent: Sequence[Sent], chance: Random, *, whole: bool, once: bool) -> list[list[Message]]:
    """Deliver every message in order; now and then the stream goes back to where a transaction began, unless once.

    whole: each landing ends with a transaction.
    """
    blocks = [list(each.rows) for each in sent]
    times = 0 if once else chance.choice((0, 0, 1, 2))
    for at in sorted((chance.randint(0, len(blocks)) for _ in range(times)), reverse=True):
        blocks[at:at] = [list(block) for block in blocks[max(0, at - chance.randint(1, 3)) : at]]
    cuts = sorted(chance.randint(0, len(blocks)) for _ in range(chance.randint(0, 6)))
    if whole:
        parts = [blocks[a:b] for a, b in pairwise([0, *cuts, len(blocks)])]
        return [[message for block in part for message in block] for part in parts]
    messages = [message for block in blocks for message in block]
    cuts = sorted(chance.randint(0, len(messages)) for _ in cuts)
    return [messages[a:b] for a, b in pairwise([0, *cuts, len(messages)])]


def deliver_partitions(sent: Sequence[Sent], chance: Random) -> list[list[Message]]:
    """Deliver every topic in commit order, each with a lag of its own; now and then one goes back and repeats itself.

    In the end each topic tells of a later transaction that nobody watches, as a heartbeat does.
    """
    topics: dict[str, list[Message]] = {HEARTBEATS: []}
    for each in sent:
        for message in each.rows:
            topics.setdefault(message[0], []).append(message)
    last = sent[-1].csn + 1 if sent else 1
    left = {topic: [*queue, (topic, heartbeat(last))] for topic, queue in topics.items()}
    landings: list[list[Message]] = []
    while any(left.values()):
        landing: list[Message] = []
        for topic, queue in left.items():
            taken = chance.choice((0, 1, 3, 10, 50))
            came = [*queue[:taken]]
            times = len(topics[topic]) + 1 - len(queue)
            if came and times and chance.random() < 0.3:
                came = topics[topic][max(0, times - chance.randint(1, 5)) : times] + came
            landing += came
            left[topic] = queue[taken:]
        landings.append(landing)
    return landings


HEARTBEATS = "rows.other"


def heartbeat(csn: int) -> str:
    """Return a row of a table that nobody watches."""
    message = {"table": "APP.HEARTBEAT", "op_type": "U", "pos": str(10**15), "xid": f"h.{csn}", "csn": str(csn)}
    return json.dumps(message | {"after": {"ID": "1"}})


def runs(delivery: Delivery, chance: Random) -> Iterator[list[list[Message]]]:
    """Yield the landings that each run of the buffer finds: most often one."""
    grouped: list[list[Message]] = []
    for landing in delivery.landings:
        grouped.append(landing)
        if landing is delivery.landings[-1] or chance.random() < 0.7:
            yield grouped
            grouped = []
