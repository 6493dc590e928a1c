"""How many examples a test draws: few when a person waits, more for `make test-all`, or as many as its author chose.

And what the random lakes of a run drew.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

FEW = 25
DEEP = 150
"""TXLOOM_EXAMPLES with which each test draws what its author chose."""


def examples(chosen: int) -> int:
    """Return how many examples to draw, for which every run takes another seed, but for one in CI."""
    scale = os.environ.get("TXLOOM_EXAMPLES")
    return min(FEW, chosen) if scale is None else max(1, chosen * int(scale) // DEEP)


def drawn_lines(properties: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return, as lines, how many times lakes drew each operation, and how many lakes; [] for none.

    properties: of tests; those of a lake have `drawn`, the times by operation.
    """
    lakes = [Counter(each["drawn"]) for each in properties if "drawn" in each]
    if not lakes:
        return []
    total, of_lakes = Counter[str](), Counter[str]()
    for each in lakes:
        total += each
        of_lakes.update(name for name, count in each.items() if count)
    lines = [f"{name:<40} {count:>6} times in {of_lakes[name]:>5} lakes" for name, count in sorted(total.items())]
    return [f"drawn by {len(lakes)} lakes:", *lines]
