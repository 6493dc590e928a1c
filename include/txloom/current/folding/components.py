"""Union-find over key changes: keys that a chain of key changes connects must be folded together."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def components(edges: Iterable[tuple[K, K]]) -> dict[K, K]:
    """Map every key that an edge (old key, new key) names to one representative of its component.

    >>> found = components([("a", "b"), ("b", "c"), ("x", "y")])
    >>> found["a"] == found["b"] == found["c"], found["x"] == found["y"], found["a"] == found["x"]
    (True, True, False)
    """
    parent: dict[K, K] = {}
    size: dict[K, int] = {}
    for old, new in edges:
        left, right = _root(parent, old), _root(parent, new)
        if left == right:
            continue
        if size.get(left, 1) > size.get(right, 1):
            left, right = right, left
        parent[left] = right
        size[right] = size.pop(left, 1) + size.get(right, 1)
    return {key: _root(parent, key) for key in parent}


def _root(parent: dict[K, K], key: K) -> K:
    """Return the representative of a key, and halve the path to it."""
    parent.setdefault(key, key)
    while parent[key] != key:
        parent[key] = parent[parent[key]]
        key = parent[key]
    return key
