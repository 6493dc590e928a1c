"""An edit that gives changes csns of another kind is refused before anything is landed by it."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from txloom.cli import main
from txloom.config import load
from txloom.errors import ConfigurationError
from txloom.storage.declarations import records
from txloom.storage.delta import small_tables
from txloom.storage.edits.refused_edits import refused_edits
from workloads.small_lake import SmallLake

DECLARED = """
name: shop
source: {{format: {format}, files: {{path: {inbox}, settle: 0s}}{more}}}
completeness: {{rule: {rule}}}
tables: [{{name: parts, source: SHOP.PARTS, key: [code], columns: {{code: string, price: long}}}}]
targets: {{mirrors: ["*"]}}
"""
TIMED = {"format": "change_sets", "rule": "single", "more": ""}
NUMBERED = {"format": "change_sets", "rule": "progress", "more": ", change_sets: {transaction: XID}"}
STREAM = {"format": "wal2json", "rule": "markers, patience: 1h", "more": ""}
HINT = "The lake orders changes by csn, and csns from before and after this edit cannot be compared."


class Shop:
    """A small lake of change sets."""

    def __init__(self, folder: Path, declared: dict[str, str]) -> None:
        self.folder, self.file, self.sets = folder, folder / "shop.yaml", 0
        (folder / "inbox" / "SHOP.PARTS").mkdir(parents=True)
        self.lake = SmallLake(folder, self.declared(declared))

    def declared(self, declared: dict[str, str]) -> Any:
        self.file.write_text(DECLARED.format(inbox=self.folder / "inbox", **declared))
        return load(self.file)

    def put(self, price: int) -> None:
        """Write a change set of one row: it has a timestamp, and the number of its transaction."""
        self.sets += 1
        flag, at = "U" if self.sets > 1 else "I", f"2026-01-0{self.sets} 00:00:00.0"
        rows = f"FLAG,code,price,CDC_TIMESTAMP,XID,AT\n{flag},a,{price},{at},{self.sets},{at}\n"
        (self.folder / "inbox" / "SHOP.PARTS" / f"{self.sets}.csv").write_text(rows)

    def prices(self) -> list[int]:
        return [row["price"] for row in self.lake.rows("parts")]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (TIMED, NUMBERED, "4: completeness.rule: found progress, expected single as before."),
        (NUMBERED, TIMED, "4: completeness.rule: found single, expected progress as before."),
        (TIMED, STREAM, "3: source.format: found wal2json, expected change_sets as before."),
    ],
)
def test_it_is_refused_by_landing_plan_and_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: dict[str, str], after: dict[str, str], says: str
) -> None:
    shop = Shop(tmp_path, before)
    shop.put(1)
    shop.put(2)
    shop.lake.run()
    shown = shop.prices()
    shop.lake.pipeline = shop.declared(after)
    shop.put(3)
    landed = shop.lake.rows("change_events")
    with pytest.raises(ConfigurationError, match=says.partition(": ")[2]):
        shop.lake.run()
    assert (shop.lake.rows("change_events"), shop.prices()) == (landed, shown)
    warehouse = str(shop.lake.paths.warehouse)
    for command in (["plan", str(shop.file), "--warehouse", warehouse], ["check", str(shop.file)]):
        arguments = command if "--warehouse" in command else [*command, "--warehouse", warehouse]
        assert main(arguments) != 0
        printed = "".join(capsys.readouterr())
        assert f"{shop.file}:{says} {HINT}" in printed
    shop.lake.pipeline = shop.declared(before)
    shop.put(4)
    shop.lake.run()
    assert shop.prices() == [4 if before is TIMED else 3]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            "",
            "timestamp: AT",
            r"change_sets.timestamp: found AT, expected CDC_TIMESTAMP as before. Rows landed earlier",
        ),
        ("", "sequence: XID", "change_sets.sequence: found XID, expected nothing as before"),
        ("sequence: XID", "", "change_sets.sequence: found nothing, expected XID as before"),
        ("", "timestamp: cdc_timestamp", ""),
        ("", "timestamp: CHANGED_AT", ""),
    ],
)
def test_a_field_that_earlier_rows_have_too_is_no_new_name(tmp_path: Path, before: str, after: str, says: str) -> None:
    shop = Shop(tmp_path, TIMED | {"more": f", change_sets: {{{before}}}"})
    shop.put(1)
    shop.lake.run()
    shop.lake.pipeline = shop.declared(TIMED | {"more": f", change_sets: {{{after}}}"})
    landed = shop.lake.rows("change_events")
    if says:
        with pytest.raises(ConfigurationError, match=says):
            shop.lake.run()
        assert shop.lake.rows("change_events") == landed
    else:
        shop.lake.run()


def test_a_lake_of_an_earlier_version_takes_the_edit_of_its_next_landing_as_known(tmp_path: Path) -> None:
    shop = Shop(tmp_path, TIMED)
    shop.put(1)
    shop.lake.run()
    path = shop.lake.paths.landed_files
    rows = small_tables.query(path, "select * from t")
    schema = pa.schema([each for each in small_tables.schema_of(path) if each.name != "reading"])
    shutil.rmtree(path)
    small_tables.append(path, [{name: row[name] for name in schema.names} for row in rows], schema)
    assert refused_edits(shop.declared(NUMBERED), shop.lake.paths, records.read(shop.lake.paths)) == []
    shop.lake.pipeline = shop.declared(TIMED)
    shop.put(2)
    shop.lake.run()
    assert [each.key for each in refused_edits(shop.declared(NUMBERED), shop.lake.paths, [])] == ["completeness.rule"]
