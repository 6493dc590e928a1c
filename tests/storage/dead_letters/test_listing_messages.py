"""Dead letters are chosen by the positions of their messages, however many."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from txloom.errors import ConfigurationError
from txloom.quality.dead_letters import Selection
from txloom.storage.dead_letters.listing import among
from txloom.storage.delta import arrow_tables

ROWS = 20_000


def chosen(path: Path, messages: list[str]) -> list[int]:
    sql = f"select n from t where {among(Selection(messages=messages))} order by n"
    return arrow_tables.select(str(path), sql).column("n").to_pylist()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a table of messages: even ones are of two partitions, odd ones of two files."""
    rows = [
        {"n": n, "topic": "rows", "partition": n // 2 % 2, "offset": n}
        if n % 2 == 0
        else {"n": n, "topic": None, "file": f"rows/it's {n // 2 % 2}.jsonl", "line": n}
        for n in range(ROWS)
    ]
    kinds = [("n", pa.int64()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
    schema = pa.schema([*kinds, ("file", pa.string()), ("line", pa.int64())])
    write_deltalake(tmp_path / "t", pa.Table.from_pylist(rows, schema))
    return tmp_path / "t"


def position(n: int) -> str:
    half = n // 2 % 2
    return f"rows[{half}] at offset {n}" if n % 2 == 0 else f"rows/it's {half}.jsonl, line {n}"


@pytest.mark.parametrize("every", [ROWS // 3, 3, 1])
def test_the_messages_at_some_positions_are_chosen(path: Path, every: int) -> None:
    numbers = list(range(0, ROWS, every))
    assert chosen(path, [position(n) for n in numbers]) == numbers


def test_a_position_is_that_of_its_partition_or_file(path: Path) -> None:
    assert chosen(path, ["rows[1] at offset 4", "other[0] at offset 4", "rows/it's 1.jsonl, line 1"]) == []
    with pytest.raises(ConfigurationError, match="'line 7' is no position of a message"):
        among(Selection(messages=["line 7"]))
