"""Count the rows of a child in documents: of the relation `one`, a document that has several shows the last by key."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_ROWS = "_txloom_rows_"


def count_column(field: str) -> str:
    """Return the column of composed documents with the number of their rows of a child; field: the child's."""
    return f"{_ROWS}{field}"


@dataclass(frozen=True)
class SeveralChildren:
    """A document with several rows of a child whose relation is declared `one`.

    Args:
        field: the child's field in the document.
        csn: that of the document's newest change.
        key: the key of the document.
        xid: the transaction of the document's newest change.
        rows: how many rows of the child it has.
    """

    field: str
    csn: int
    key: tuple[Any, ...]
    xid: str
    rows: int

    def describe(self, names: Sequence[str], child: str) -> str:
        """Return what shows it; names: the key columns of the document, child: the table.

        >>> SeveralChildren("item", 7, (1,), "x", 2).describe(["id"], "items")
        'document {"id": 1} has 2 rows of items, and `item` shows the last by key'
        """
        key = json.dumps(dict(zip(names, self.key, strict=True)), default=str, ensure_ascii=False)
        return f"document {key} has {self.rows} rows of {child}, and `{self.field}` shows the last by key"


def find_several(documents: pa.Table, fields: Iterable[str], key: Sequence[str]) -> list[SeveralChildren]:
    """Return for each field the first document, by csn and key, that has several rows of its child, if there is one.

    Args:
        documents: composed documents, with the key, `_txloom_csn`, `_txloom_xid` and a `count_column` for each field.
        fields: those of the children whose relation is declared `one`.
        key: the key columns of the documents.
    """
    first = []
    for field in fields:
        count = count_column(field)
        chosen = documents.filter(pc.greater(documents.column(count), pa.scalar(1, pa.int64())))
        if not chosen.num_rows:
            continue
        ordered = chosen.select([*key, "_txloom_csn", "_txloom_xid", count]).sort_by(
            [(name, "ascending") for name in ("_txloom_csn", *key)]
        )
        (row,) = ordered.slice(0, 1).to_pylist()
        first.append(
            SeveralChildren(field, row["_txloom_csn"], tuple(row[name] for name in key), row["_txloom_xid"], row[count])
        )
    return first


def first_of_each(several: Iterable[SeveralChildren]) -> list[SeveralChildren]:
    """Return the first document, by csn and key, of each field."""
    first: dict[str, SeveralChildren] = {}
    for each in sorted(several, key=lambda each: (each.csn, each.key)):
        first.setdefault(each.field, each)
    return list(first.values())
