"""The first document with several rows of a child is the same, however the documents are cut into pieces."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from txloom.current.documents.child_counts import SeveralChildren, count_column, find_several, first_of_each

FIELDS = ("item", "note")
DOCUMENTS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.sampled_from(["", "a", "ü"])),
    st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 3)),
)
"""By key: the csn, and how many rows the document has of each child."""


@given(DOCUMENTS, st.integers(1, 4))
def test_pieces_name_the_first_document_of_all(
    documents: dict[tuple[int, str], tuple[int, int, int]], size: int
) -> None:
    names = ["k", "l", "_txloom_csn", *map(count_column, FIELDS), "_txloom_xid"]
    kinds = [pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string()]
    rows = [dict(zip(names, [*key, *counts, f"x{counts[0]}"], strict=True)) for key, counts in documents.items()]
    table = pa.Table.from_pylist(rows, pa.schema(list(zip(names, kinds, strict=True))))
    pieces = [table.slice(start, size) for start in range(0, len(rows), size)]
    several = [each for piece in pieces for each in find_several(piece, FIELDS, ["k", "l"])]
    expected = []
    for at, field in enumerate(FIELDS, 1):
        first = min(((counts[0], key) for key, counts in documents.items() if counts[at] > 1), default=None)
        if first is not None:
            csn, key = first
            expected.append(SeveralChildren(field, csn, key, f"x{csn}", documents[key][at]))
    assert sorted(first_of_each(several), key=lambda each: each.field) == expected
    assert find_several(table, FIELDS, ["k", "l"]) == expected
