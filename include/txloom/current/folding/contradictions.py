"""Compare the images before changes with the rows that those changes meet.

A difference, a contradiction, means that the source changed rows without sending events (ADD COLUMN ... DEFAULT,
RENAME, ALTER TYPE), or that a change never came. Of each touched key only the first contradiction in commit order
counts, and of those the first of each kind and column is reported. Keys that change are not compared, because inside a
transaction two rows may have one key.

Changes of a cleaned history are compared only above the csn of the cleaning: below it, the change before may be gone.
Those changes were compared when they were first merged.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.arrow_types import AnyColumn, AnyScalar
from txloom.current.folding.effects import Effects
from txloom.current.folding.encoded import DELETE, INSERT, NOWHERE, ROW, TRUNCATE, UPDATE, CompactChanges, Flags, Ints
from txloom.current.folding.latest import Known
from txloom.current.folding.value_sources import Images

NONE: Ints = np.zeros(0, np.int64)
UNKNOWN, EXISTS, DIFFERS = "row was not known", "row was there already", "value changed without an event"
"""The kinds of contradictions, as reports name them."""
NOT_KNOWN, THERE = -2, -1
WHOLE_ROW = {NOT_KNOWN: UNKNOWN, THERE: EXISTS}


@dataclass(frozen=True)
class Compared:
    """Which changes are compared.

    Args:
        chained: by key, whether key changes connect it with others; such keys are not compared.
        above: the csn up to which changes may lack the ones before them, because history was cleaned; 0: none may.
    """

    chained: Flags
    above: int = 0


def contradictions(
    effects: Effects, numbers: CompactChanges, images: Images, compared: Compared, known: Known, xids: AnyColumn
) -> pa.StringArray:
    """Return one JSON text per effect, null without a contradiction.

    Its members are what, column, key, csn and xid, and for a value that differs also told (the value in the image
    before) and held (the value in the row).
    """
    event = _first_deliveries(numbers, compared.chained)
    owner = numbers.key[event]
    follows = np.append(False, owner[1:] == owner[:-1])[: len(event)]
    before = np.append(NOWHERE, event[:-1])[: len(event)]
    before[~follows] = NOWHERE
    alive = (before != NOWHERE) & (numbers.op[before] != DELETE) & ~_cut(numbers, before, event)
    op = numbers.op[event]
    is_compared = numbers.csn[event] > compared.above
    changes = ((op == UPDATE) | (op == DELETE)) & is_compared
    both = changes & alive
    inserts = (op == INSERT) & ~numbers.taken[event] & is_compared
    by_kind = [(NOT_KNOWN, np.flatnonzero(changes & ~alive)), (THERE, np.flatnonzero(inserts & alive))]
    for column in range(len(images.plain)):
        different = _differing(numbers, images, known, column, event[both], before[both])
        by_kind.append((column, np.flatnonzero(both)[different]))
    texts: list[str | None] = [None] * len(effects.key)
    for kind, index in _first(by_kind, numbers, event):
        change, key = int(event[index]), int(numbers.key[event[index]])
        key_values = {name: _text(images.take(name, numbers.sample[[key]])[0]) for name in images.key}
        about = _about(numbers, images, kind, change, int(before[index]))
        about |= {"key": key_values, "csn": int(numbers.csn[change]), "xid": xids[change].as_py()}
        texts[int(np.flatnonzero(effects.key == key)[0])] = json.dumps(about, ensure_ascii=False)
    return pa.array(texts, pa.string())


def _first(by_kind: Sequence[tuple[int, Ints]], numbers: CompactChanges, event: Ints) -> list[tuple[int, int]]:
    """Return (kind, index into event) of the first contradiction of each key, and of those the first of each kind."""
    kind = np.concatenate([np.full(len(index), kind) for kind, index in by_kind])
    index = np.concatenate([index for _, index in by_kind])
    order = np.lexsort((kind, numbers.rank[event[index]]))
    order = order[np.unique(numbers.key[event[index[order]]], return_index=True)[1]]
    order = order[np.lexsort((kind[order], numbers.rank[event[index[order]]]))]
    order = order[np.unique(kind[order], return_index=True)[1]]
    return list(zip(kind[order].tolist(), index[order].tolist(), strict=True))


def _about(numbers: CompactChanges, images: Images, kind: int, event: int, before: int) -> dict[str, Any]:
    """Describe a contradiction; kind: the number of the column that differs, or a key of WHOLE_ROW."""
    if kind in WHOLE_ROW:
        return {"what": WHOLE_ROW[kind], "column": None}
    name, changes = images.plain[kind], len(numbers.key) - numbers.rows
    sent, held = (_text(images.take(name, np.array([source]))[0]) for source in (event + changes, before))
    return {"what": DIFFERS, "column": name, "told": sent, "held": held}


def _first_deliveries(numbers: CompactChanges, chained: Flags) -> Ints:
    """Return the events of keys that never change, by key and commit order, from the current row on, each once."""
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
    events: Ints = event[~again]
    return events


def _cut(numbers: CompactChanges, before: Ints, event: Ints) -> Flags:
    """Return a mask over `event`: the table was truncated between the event and the one before it."""
    return _between(numbers, before, event, np.flatnonzero(numbers.op == TRUNCATE))


def _between(numbers: CompactChanges, before: Ints, event: Ints, others: Ints) -> Flags:
    """Return a mask over `event`: one of `others` lies between the event and the one before it in commit order."""
    ranks = np.sort(numbers.rank[others])
    since, upto = (np.searchsorted(ranks, numbers.rank[ends]) for ends in (before, event))
    return np.asarray(since != upto, np.bool_)


def _differing(numbers: CompactChanges, images: Images, known: Known, column: int, event: Ints, before: Ints) -> Ints:
    """Return the indices into `event` where a column's value in the image before differs from the row's value.

    Events are left out where either value is not known: the image before lacks the column, the row's last event left
    it unchanged, or the column was nulled in between. Columns of nested types are not compared.
    """
    kind = images.type_of(images.plain[column])
    if pa.types.is_nested(kind) or not len(event):
        return NONE
    left = numbers.unchanged.event[numbers.unchanged.column == column]
    sure = ~np.isin(before, left) & known(event, np.full(len(event), column))
    sure &= ~_between(numbers, before, event, numbers.cleared.event[numbers.cleared.column == column])
    if not sure.any():
        return NONE
    event, before = event[sure], before[sure]
    changes = len(numbers.key) - numbers.rows
    name = images.plain[column]
    sent, held = images.take(name, event + changes), images.take(name, before)
    same = cast("pa.BooleanArray", pc.equal(sent, held).fill_null(False))
    both_null = pc.and_(pc.is_null(sent), pc.is_null(held))
    both_nan = pc.and_(*(pc.xor(pc.is_null(values, nan_is_null=True), pc.is_null(values)) for values in (sent, held)))
    same = pc.or_(same, pc.or_(both_null, both_nan))
    places = np.flatnonzero(~same.to_numpy())
    return np.asarray(np.flatnonzero(sure)[places], np.int64)


def _text(value: AnyScalar) -> str | None:
    plain = value.as_py()
    return None if plain is None else str(plain)[:200]
