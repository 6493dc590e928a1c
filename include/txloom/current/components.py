"""Union-find over key changes."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def components(edges: Iterable[tuple[K, K]]) -> dict[K, K]:
    """Map every key that an edge names to one representative of its chain."""
    parent: dict[K, K] = {}

    def root(key: K) -> K:
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for left, right in edges:
        parent[root(left)] = root(right)
    return {key: root(key) for key in parent}
