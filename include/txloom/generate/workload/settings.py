"""The settings of a workload: how large transactions are, and how often rare statements happen."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from txloom.config.problems import did_you_mean
from txloom.errors import ConfigurationError
from txloom.generate.workload.values import Draw

SIZES = "1-3:30,4-8:50,9-20:18,50-200:2"
_SIZE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?(?::(\d{1,9}))?")


@dataclass(frozen=True)
class Sizes:
    """How many rows a transaction changes: ranges, and the relative frequency of each."""

    ranges: tuple[tuple[int, int], ...]
    weights: tuple[int, ...]

    def draw(self, draw: Draw) -> int:
        """Return a transaction's number of rows."""
        lot = draw.below(sum(self.weights))
        position = 0
        while lot >= self.weights[position]:
            lot -= self.weights[position]
            position += 1
        low, high = self.ranges[position]
        return low + draw.below(high - low + 1)


@dataclass(frozen=True)
class Shares:
    """The shares of rare statements among statements, and of empty transactions among transactions."""

    deletes: float = 0.08
    key_changes: float = 0.02
    truncates: float = 0.0005
    empty: float = 0.01


def sizes_of(text: str) -> Sizes:
    """Read sizes such as `8`, `1-12` or `1-3:30,4-8:50,200:1`; raises ConfigurationError for anything else.

    >>> sizes_of("1-3:30,8")
    Sizes(ranges=((1, 3), (8, 8)), weights=(30, 1))
    """
    ranges, weights = [], []
    for part in text.split(","):
        match = _SIZE.fullmatch(part.strip())
        low, high, weight = (
            (int(group or fallback) for group, fallback in zip(match.groups(), (0, -1, 1), strict=True))
            if match
            else (0, 0, 0)
        )
        high = low if high < 0 else high
        if not (1 <= low <= high and weight):
            expected = "rows or a range of them, with how often: 8, 1-12 or 1-3:30,4-8:50,200:1"
            raise ConfigurationError(f"--rows-per-transaction: found {part.strip()!r}, expected {expected}.")
        ranges.append((low, high))
        weights.append(weight)
    return Sizes(tuple(ranges), tuple(weights))


def shares_of(given: Sequence[str]) -> Shares:
    """Read shares such as `deletes=0.3`, with defaults for the others; raises ConfigurationError for anything else."""
    names = [each.name for each in fields(Shares)]
    shares = Shares(**read_shares("--share-of", given, names))
    if shares.deletes + shares.key_changes + shares.truncates > 1:
        raise ConfigurationError("--share-of: found shares of statements above 1 together, expected at most 1.")
    return shares


def read_shares(flag: str, given: Sequence[str], names: Sequence[str]) -> Mapping[str, float]:
    """Read NAME=SHARE pairs; a name may be written with dashes, and several pairs with commas between them.

    Raises:
        ConfigurationError: A name is unknown, or a share is no number from 0 to 1; flag: for the message.
    """
    shares: dict[str, float] = {}
    for pair in (pair for each in given for pair in each.split(",") if pair):
        name, _, number = pair.partition("=")
        name = name.strip().replace("-", "_")
        if name not in names:
            hint = did_you_mean(name, names)
            raise ConfigurationError(f"{flag}: found {name!r}, expected one of {', '.join(names)}. {hint}".rstrip())
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise ConfigurationError(f"{flag}: found {pair!r}, expected {name}=SHARE with a share from 0 to 1.")
        shares[name] = share
    return shares
