"""Rows that come after their transaction was released: with other values than before, or as one row more."""

import json
from collections.abc import Sequence

from oracle.capture import Message
from workloads.play import Play
from workloads.small_lake import SmallLake


def forged(lake: SmallLake, made: Play) -> Sequence[Message]:
    """Return what a producer that errs sends once more of transactions of GoldenGate that were released, if anything.

    A dead letter takes each, and no table shows it.
    """
    if not made.dimensions.forged or made.chance.random() < 0.2:
        return []
    released = {row["csn"] for row in lake.rows("transactions") if row["status"] == "released"}
    of_each = [each.rows for each in made.sent if each.csn in released and each.rows]
    chosen = made.chance.sample(of_each, min(len(of_each), made.chance.randint(1, 5)))
    share = made.chance.choice((0.5, 1))
    return [_altered(*row, made) for rows in chosen for row in rows if made.chance.random() < share]


def _key(topic: str, made: Play) -> Sequence[str]:
    """Return the key of the table whose rows a topic has; none of a table that nobody watches."""
    table = made.made.tables.get(topic.removeprefix("rows."))
    return () if table is None else table.key


def _altered(topic: str, text: str, made: Play) -> Message:
    """Return a row with other values, or at another place."""
    message = json.loads(text, parse_float=str, parse_int=str)
    image = message.get("after") or message.get("before")
    if image is None or made.chance.random() < 0.5:
        message["pos"] = f"{int(message['pos']) + 10**18:020}"
    else:
        key = {column.upper() for column in _key(topic, made)}
        image |= dict.fromkeys(set(image) - key)
    made.forged.add(altered := json.dumps(message))
    return topic, altered
