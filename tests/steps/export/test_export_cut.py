"""A cut as plain Parquet: what it shows, whole or not at all, and nothing of another cut."""

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from called import step_of
from released import Released
from topics import no_session
from txloom.errors import ConfigurationError, CutReplaced
from txloom.steps.export import export_cut as exporting
from txloom.steps.export.export_cut import Choice, export_cut
from txloom.steps.publish.publish import publish
from txloom.storage.publishing import reader_holds
from txloom.storage.stores.file_systems import filesystem_of


@pytest.fixture
def lake(tmp_path: Path) -> Released:
    """Return a pipeline with three published cuts, the last of which has no row."""
    made = Released(tmp_path, "id: long, note: string")
    for csn, changes in enumerate(
        (
            [("I", {}, {"id": 1, "note": "é"}), ("I", {}, {"id": 2, "note": None})],
            [("U", {"id": 1}, {"id": 1, "note": "b"}), *(("I", {}, {"id": each, "note": "n"}) for each in range(3, 9))],
            [("T", {}, {})],
        ),
        1,
    ):
        made.release(csn, changes)
        made.merge(no_session)
        publish(step_of(made.pipeline, made.folder, f"run-{csn}"))
    return made


def export(lake: Released, folder: object, cut_id: int | None = None, *tables: str) -> dict[str, Any]:
    return dict(export_cut(step_of(lake.pipeline, lake.folder, "exported"), Choice(str(folder), cut_id, tables)))


def rows(folder: Path, table: str = "readings") -> list[tuple[int, str | None]]:
    return sorted((row["id"], row["note"]) for row in pq.read_table(folder / table).to_pylist())


def manifest(folder: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return known


def test_each_cut_is_exported_as_it_was_published(lake: Released, tmp_path: Path) -> None:
    expected = {1: [(1, "é"), (2, None)], 2: [(1, "b"), (2, None), *((each, "n") for each in range(3, 9))], 3: []}
    for cut_id, shown in expected.items():
        out = tmp_path / f"out-{cut_id}"
        counts = export(lake, out, cut_id)
        assert counts == {"cut_id": cut_id, "tables": 1, "rows": len(shown), "files": 1, "written": 1}
        assert rows(out) == shown
        assert (manifest(out)["cut_id"], manifest(out)["valid_through"]) == (cut_id, cut_id)
    export(lake, tmp_path / "newest")
    assert manifest(tmp_path / "newest")["cut_id"] == 3


def test_the_manifest_says_what_each_file_holds(
    lake: Released, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "FILE_ROWS", 3)
    export(lake, tmp_path / "out", 2)
    known = manifest(tmp_path / "out")["tables"]["readings"]
    assert [file["rows"] for file in known["files"]] == [3, 3, 2] and known["rows"] == 8
    assert [column["name"] for column in known["columns"]][:2] == ["id", "note"]
    for file in known["files"]:
        content = (tmp_path / "out" / file["path"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    assert len(rows(tmp_path / "out")) == 8


def test_a_repeated_export_writes_nothing_and_one_that_died_is_written_over(lake: Released, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(lake, out, 1)
    changed = (out / "manifest.json").stat().st_mtime_ns
    assert export(lake, out, 1)["written"] == 0
    assert (out / "manifest.json").stat().st_mtime_ns == changed
    (out / "manifest.json").unlink()
    (out / "readings" / "part-00007.parquet").write_bytes(b"half")
    assert export(lake, out, 1)["written"] == 1
    assert rows(out) == [(1, "é"), (2, None)]


@pytest.mark.parametrize("store", ["s3"])
def test_a_cut_is_exported_into_another_store(
    lake: Released, store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = request.getfixturevalue(store)
    s3.reach(monkeypatch)
    out = f"{s3.bucket('exports')}/out"
    assert export(lake, out, 2)["rows"] == 8
    filesystem, inside = filesystem_of(out)
    assert pq.read_table(f"{inside}/readings", filesystem=filesystem).num_rows == 8
    assert export(lake, out, 2)["written"] == 0


def test_what_cannot_be_exported_is_refused_and_leaves_no_manifest(lake: Released, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has published no cut 9"):
        export(lake, tmp_path / "out", 9)
    with pytest.raises(ConfigurationError, match="cut 1 has no table orders; it has readings"):
        export(lake, tmp_path / "out", 1, "orders")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("x")
    with pytest.raises(ConfigurationError, match=r"taken is not empty: mine\.txt is in it"):
        export(lake, tmp_path / "taken", 1)
    export(lake, tmp_path / "one", 1)
    with pytest.raises(ConfigurationError, match=r"one holds the export of cut 1 \(readings\)"):
        export(lake, tmp_path / "one", 2)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_an_older_cut_whose_files_may_be_gone_is_refused_and_the_newest_is_not(
    lake: Released, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retain = lake.pipeline.maintenance.vacuum.model_copy(update={"retain": timedelta(0)})
    maintenance = lake.pipeline.maintenance.model_copy(update={"vacuum": retain})
    monkeypatch.setattr(lake, "pipeline", lake.pipeline.model_copy(update={"maintenance": maintenance}))
    with pytest.raises(ConfigurationError, match=r"cut 1 is older than vacuum keeps \(readings\): export a newer one"):
        export(lake, tmp_path / "out", 1)
    assert export(lake, tmp_path / "newest")["cut_id"] == 3


def test_the_cut_is_held_while_it_is_exported(lake: Released, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[str]()

    def finish(target: Any, known: dict[str, Any]) -> None:
        seen.extend(row["reader"] for row in reader_holds._lasting(lake.paths, exporting.datetime.now(exporting.UTC)))
        raise CutReplaced("as if")

    monkeypatch.setattr(exporting._Target, "finish", finish)
    with pytest.raises(CutReplaced):
        export(lake, tmp_path / "out", 1)
    assert seen == ["export exported"]
    assert reader_holds._lasting(lake.paths, exporting.datetime.now(exporting.UTC)) == []
