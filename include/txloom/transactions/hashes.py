"""The 64-bit hashes by which the buffer identifies transactions, tables and identities."""

from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from txloom.arrow_types import Integers, Texts

SEED = 42
"""Spark's default seed, so that SQL can compute the same numbers."""
CHECK = 4711
"""Seed of a transaction's second hash, which distinguishes two transactions whose first hash is the same."""
DIGITS = 18
"""The most decimal digits that always fit 63 bits."""


def hash64(text: str, seed: int = SEED) -> int:
    """Return the hash of a string; with the default seed it is what Spark's xxhash64 returns.

    >>> hash64("orders")
    -8807140214309234074
    """
    unsigned: int = xxhash.xxh64_intdigest(text.encode(), seed=seed)
    return unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned


def hashed(texts: Texts, seed: int = SEED) -> pa.Int64Array:
    """Return the hashes of strings, null for null."""
    whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    encoded = whole.dictionary_encode()
    words = cast("list[str]", encoded.dictionary.to_pylist())
    hashes = pa.array([hash64(word, seed) for word in words], pa.int64())
    return hashes.take(encoded.indices)


def is_number(texts: pa.StringArray) -> pa.BooleanArray:
    """Return which texts are plain decimal numbers without leading zeros that fit 63 bits; they need no hash."""
    return pc.and_(
        pc.and_(pc.ascii_is_decimal(texts), pc.less_equal(pc.binary_length(texts), pa.scalar(DIGITS))),
        pc.or_(pc.equal(texts, pa.scalar("0")), pc.invert(pc.starts_with(texts, "0"))),
    )


def identities(texts: pa.StringArray) -> Integers:
    """Return a number for each identity: a plain number is itself, any other text its hash.

    >>> identities(pa.array(["12", "0", "orders"])).to_pylist()
    [12, 0, -8807140214309234074]
    """
    plain = is_number(texts)
    if pc.all(plain).as_py():
        return texts.cast(pa.int64())
    numbers = pc.if_else(plain, texts, "0").cast(pa.int64())
    either: Integers = pc.if_else(plain, numbers, hashed(pc.if_else(plain, None, texts)))
    return either
