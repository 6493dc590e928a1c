"""Lakes that are drawn from seeds, one test for each."""

from collections.abc import Sequence
from typing import Any

import pytest


def cases(sources: Sequence[str], lakes: int, seed: int) -> list[Any]:
    """Return the parameters `source` and `seed` of some lakes: sources in turn, and seeds from the first one on."""
    drawn = ((sources[n % len(sources)], seed + n) for n in range(lakes))
    return [pytest.param(source, number, id=f"{source}-{number}") for source, number in drawn]
