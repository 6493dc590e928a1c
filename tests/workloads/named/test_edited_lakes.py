"""What lakes of edited declarations found, each as the shortest workload that shows it."""

from collections.abc import Sequence
from pathlib import Path

from oracle.declarations import Table
from txloom.config import load
from workloads.named.test_named_lakes import PLAIN, cycle, lake_of, messages, row
from workloads.play import Play
from workloads.sources.database import Change, Sent, State
from workloads.sources.shapes import Shape, SourceText, declaration

OTHER = Table("other", "APP.OTHER", ("id",), {"id": "long", "v": "string"})
GTIDS = 3
"""A seed of a MySQL whose END names a GTID, and no place in the log."""


def declared(folder: Path, made: Play, tables: Sequence[Table]) -> Path:
    """Write the declaration of some of the source's tables."""
    writer, file = made.writer, folder / "workload.yaml"
    shape = Shape({table.name: table for table in tables}, None, made.dimensions)
    source = SourceText(writer.source, writer.rule, writer.layout, "10d")
    file.write_text(declaration(shape, folder / "inbox", source=source))
    return file


def insert(made: Play, csn: int, table: Table, number: int) -> Sent:
    """Commit one insert into a table."""
    state: State = {each.name: {} for each in (PLAIN, OTHER)}
    change = Change(table, "I", None, row(number, "a"), tuple(table.columns))
    sent = Sent("", csn, [], None, state, [change], number)
    made.writer.write(sent)
    return sent


def test_a_transaction_that_had_no_watched_row_to_place_it_has_its_place_once_it_has(tmp_path: Path) -> None:
    lake, made, producer = lake_of(tmp_path, "debezium/mysql", PLAIN, GTIDS, more=[OTHER])
    assert made.writer._gtids
    lake.pipeline = load(declared(tmp_path, made, [PLAIN]))
    sent = [insert(made, 1000, PLAIN, 1), insert(made, 1010, OTHER, 2), insert(made, 1020, PLAIN, 3)]
    cycle(lake, producer, messages(*sent))
    lake.pipeline = load(declared(tmp_path, made, [PLAIN, OTHER]))
    cycle(lake, producer, messages(insert(made, 1030, OTHER, 4)))
    assert sorted((each["id"], each["_txloom_csn"]) for each in lake.rows("other")) == [(2, 1010), (4, 1030)]
