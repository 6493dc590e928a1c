"""Fold changes into current rows."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def fold(rows: pa.Table, changes: pa.Table, *, key: Sequence[str], columns: Sequence[str]) -> pa.Table:
    schema = pa.schema(
        [rows.schema.field(c) for c in columns]
        + [("_txloom_csn", pa.int64()), ("_txloom_pos", pa.int64()), ("_txloom_xid", pa.string()), ("_txloom_deleted", pa.bool_()), ("_txloom_missing", pa.list_(pa.string()))]
    )
    state: dict[Any, dict[str, Any]] = {tuple(r[k] for k in key): r for r in rows.to_pylist()}
    marks = {k: (r["_txloom_csn"], r["_txloom_pos"], r["_txloom_xid"]) for k, r in state.items()}
    touched: dict[Any, tuple[int, int, str]] = {}
    swap: dict[Any, dict[str, Any]] = {}
    last = None
    for c in sorted(changes.to_pylist(), key=lambda c: (c["_txloom_csn"], c["_txloom_pos"])):
        at = (c["_txloom_csn"], c["_txloom_pos"])
        if at == last:
            continue
        last = at
        stamp = (*at, c["_txloom_xid"])
        if c["_txloom_op"] == "T":
            for k in list(state):
                touched[k] = stamp
            state.clear()
            continue
        k = tuple(c[x] for x in key)
        if k in marks and marks[k][:2] >= at:
            continue
        if c["_txloom_op"] == "D":
            state.pop(k, None)
            touched[k] = stamp
            continue
        old = k
        known = c["_txloom_before_known"] or []
        if c["_txloom_op"] == "U" and all(x in known for x in key):
            old = tuple(c["_txloom_before"][x] for x in key)
        base = state.get(old, {})
        if old != k and old in swap:
            base = swap.pop(old)
        elif old != k:
            state.pop(old, None)
            touched[old] = stamp
        if old != k and k in state:
            swap[k] = state[k]
        row = {x: c[x] for x in columns}
        missing = []
        for x in c["_txloom_unchanged"] or ():
            if x in key:
                continue
            if x in base:
                row[x] = base[x]
            else:
                missing.append(x)
        state[k] = {**row, "_txloom_missing": missing or None}
        touched[k] = stamp
    out = []
    for k, (csn, pos, xid) in touched.items():
        r = state.get(k)
        out.append({**{x: None for x in columns}, **dict(zip(key, k)), **(r or {}), "_txloom_csn": csn, "_txloom_pos": pos, "_txloom_xid": xid, "_txloom_deleted": r is None})
    return pa.Table.from_pylist(out, schema)
