"""What a merge has worked out before it writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from txloom.current.clears import Columns


@dataclass(frozen=True)
class Work:
    """What a merge writes, by table: documents, then the flat rows that they are composed of; from how many changes.

    evidence: by table, what its changes tell of rows that is not so. columns: by table, which columns its source
    dropped, as of the merge; None: as before.
    """

    documents: Mapping[str, Callable[[], None]]
    rows: Mapping[str, Callable[[], None]]
    changes: int
    evidence: Mapping[str, Sequence[str]]
    columns: Mapping[str, Columns | None]
