"""What an aggregate's documents are, by definition: the reference for whatever composes them at scale."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from txloom.current.compose import Key, Member, RowValues, by_parent, key_of, nested

Stamp = tuple[int, int]
"""(csn, pos)"""
Move = tuple[int, int, Key, Key]
"""(csn, pos, old key, new key) of a root."""


def documents(
    roots: Iterable[RowValues], key: Sequence[str], children: Sequence[tuple[Member, Sequence[RowValues]]]
) -> list[RowValues]:
    """Nest children in their roots, ordered by the root's key; a child without a root is in no document.

    >>> details = Member("details", "one", ("id",), ("order",), ("note",))
    >>> documents([{"id": 7}], ["id"], [(details, [{"id": 1, "order": 7, "note": "x"}])])
    [{'id': 7, 'details': {'note': 'x'}}]
    """
    gathered = [(member, by_parent(member, rows)) for member, rows in children]
    return [
        root | {member.field: nested(member, found.get(key_of(root, key), [])) for member, found in gathered}
        for root in sorted(roots, key=lambda root: key_of(root, key))
    ]


def implied_moves(root_changes: Iterable[Move]) -> list[Move]:
    """Return the key changes of roots in commit order, each once: children go where their root goes.

    >>> implied_moves([(2, 1, ("b",), ("c",)), (1, 1, ("a",), ("b",)), (1, 1, ("a",), ("b",)), (3, 1, ("c",), ("c",))])
    [(1, 1, ('a',), ('b',)), (2, 1, ('b',), ('c',))]
    """
    return sorted({move for move in root_changes if move[2] != move[3]}, key=lambda move: move[:2])


def move(parent_key: Key, since: Stamp, moves: Sequence[Move]) -> Key:
    """Return where a child belongs whose last event, at `since`, named this parent; moves as `implied_moves` has them.

    Needed where cascades send no events (MySQL). Keys are unique there after every row, so that each move is taken by
    itself: two roots never share a key for a moment as in `chains`.

    >>> moves = [(1, 1, ("a",), ("b",)), (2, 1, ("b",), ("c",))]
    >>> move(("a",), (0, 9), moves), move(("a",), (1, 2), moves), move(("b",), (1, 2), moves)
    (('c',), ('a',), ('c',))
    """
    for _, _, old, new in moves[bisect_right(moves, since, key=lambda move: move[:2]) :]:
        if parent_key == old:
            parent_key = new
    return parent_key
