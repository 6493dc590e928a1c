"""What changes tell of the rows before them, held against the rows: a difference means that the source changed rows
without sending events (ADD COLUMN ... DEFAULT, RENAME, ALTER TYPE), or that a change never came.

Each touched key tells at most one contradiction, the first in commit order. Keys that change are left alone: inside a
transaction two rows may meet at one.
"""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.current.effects import Effects
from txloom.current.images import Images
from txloom.current.latest import Known
from txloom.current.numbers import DELETE, INSERT, NOWHERE, ROW, TRUNCATE, UPDATE, Flags, Ints, Numbers

UNKNOWN, EXISTS, DIFFERS = "row was not known", "row was there already", "value changed without an event"
"""Kinds of contradiction."""


def contradictions(
    effects: Effects, numbers: Numbers, images: Images, chained: Flags, known: Known, xids: pa.ChunkedArray
) -> pa.Array:
    """Return one JSON text per effect, null where nothing contradicts: what, column, key, csn, xid, told, held."""
    event = _told_events(numbers, chained)
    owner = numbers.key[event]
    follows = np.append(False, owner[1:] == owner[:-1])[: len(event)]
    before = np.append(NOWHERE, event[:-1])[: len(event)]
    before[~follows] = NOWHERE
    alive = (before != NOWHERE) & (numbers.op[before] != DELETE) & ~_cut(numbers, before, event)
    op = numbers.op[event]
    changes = (op == UPDATE) | (op == DELETE)
    found: dict[int, tuple[int, dict[str, Any]]] = {}
    for what, where in ((UNKNOWN, changes & ~alive), (EXISTS, (op == INSERT) & alive)):
        for each in event[where].tolist():
            _keep(found, numbers, each, {"what": what, "column": None})
    both = changes & alive
    for column in range(len(images.plain)):
        for each, told, held in _differing(numbers, images, known, column, event[both], before[both]):
            name = images.plain[column]
            _keep(found, numbers, each, {"what": DIFFERS, "column": name, "told": told, "held": held})
    texts: list[str | None] = [None] * len(effects.key)
    place = {int(key): number for number, key in enumerate(effects.key)} if found else {}
    for key, (each, about) in found.items():
        own = {name: _text(images.take(name, numbers.sample[[key]])[0]) for name in images.key}
        where = {"key": own, "csn": int(numbers.csn[each]), "xid": xids[each].as_py()}
        texts[place[key]] = json.dumps({**about, **where}, ensure_ascii=False)
    return pa.array(texts, pa.string())


def _told_events(numbers: Numbers, chained: Flags) -> Ints:
    """Return the events of keys that never change, by key and time: from the current row on, redelivered ones once."""
    event = np.flatnonzero((numbers.key != NOWHERE) & ~chained[numbers.key])
    event = event[np.lexsort((numbers.rank[event], numbers.key[event]))]
    first = np.full(numbers.keys + 1, NOWHERE, np.int64)
    rows = event[numbers.op[event] == ROW]
    first[numbers.key[rows]] = numbers.rank[rows]
    event = event[numbers.rank[event] >= first[numbers.key[event]]]
    again = np.zeros(len(event), np.bool_)
    if len(event):
        again[1:] = True
        for values in (numbers.key, numbers.csn, numbers.pos, numbers.op):
            again[1:] &= values[event[1:]] == values[event[:-1]]
    told: Ints = event[~again]
    return told


def _cut(numbers: Numbers, before: Ints, event: Ints) -> Flags:
    """Say between which events and the ones before them the table was truncated."""
    truncates = np.sort(numbers.rank[numbers.op == TRUNCATE])
    since, upto = (np.searchsorted(truncates, numbers.rank[each]) for each in (before, event))
    return np.asarray(since != upto, np.bool_)


def _keep(found: dict[int, tuple[int, dict[str, Any]]], numbers: Numbers, event: int, about: dict[str, Any]) -> None:
    """Keep the first contradiction of a key."""
    key = int(numbers.key[event])
    if key not in found or numbers.rank[event] < numbers.rank[found[key][0]]:
        found[key] = event, about


def _differing(
    numbers: Numbers, images: Images, known: Known, column: int, event: Ints, before: Ints
) -> list[tuple[int, str | None, str | None]]:
    """Return (event, value told before it, value of the row) where a column's two differ and both are surely told."""
    kind = images.type_of(images.plain[column])
    if pa.types.is_nested(kind) or not len(event):
        return []
    left = numbers.unchanged.event[numbers.unchanged.column == column]
    sure = ~np.isin(before, left) & known(event, np.full(len(event), column))
    clears = numbers.rank[numbers.cleared.event[numbers.cleared.column == column]]
    sure &= numbers.rank[before] > clears.max(initial=NOWHERE)
    event, before = event[sure], before[sure]
    if not len(event):
        return []
    changes = len(numbers.key) - numbers.rows
    name = images.plain[column]
    told, held = images.take(name, event + changes), images.take(name, before)
    same = pc.fill_null(pc.equal(told, held), False)
    both_null = pc.and_(pc.is_null(told), pc.is_null(held))
    both_nan = pc.and_(*(pc.xor(pc.is_null(each, nan_is_null=True), pc.is_null(each)) for each in (told, held)))
    same = pc.or_(same, pc.or_(both_null, both_nan))
    places = np.flatnonzero(~same.to_numpy())
    return [(int(event[i]), _text(told[i]), _text(held[i])) for i in places.tolist()]


def _text(value: pa.Scalar) -> str | None:
    plain = value.as_py()
    return None if plain is None else str(plain)[:200]
