"""How many examples a test draws: few when a person waits, as many as its author chose for `make test-all`, or more."""

import os

FEW = 25
DEEP = 150
"""TXLOOM_EXAMPLES with which each test draws what its author chose."""


def examples(chosen: int) -> int:
    """Return how many examples to draw, for which every run takes another seed, but for one in CI."""
    scale = os.environ.get("TXLOOM_EXAMPLES")
    return min(FEW, chosen) if scale is None else max(1, chosen * int(scale) // DEEP)
