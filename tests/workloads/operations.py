"""What people and schedules do between two runs: none of it changes what is shown."""

import json
from pathlib import Path

from deltalake import DeltaTable

from txloom.pipelines.backfill import backfill
from txloom.pipelines.load_snapshot import load_snapshot
from workloads.play import Play
from workloads.small_lake import SmallLake


def operate(lake: SmallLake, made: Play) -> None:
    """Do what people and schedules do between two runs."""
    chosen = [each for each in sorted(made.dimensions.operations) if made.chance.random() < 0.5]
    for each in chosen:
        OPERATE[each](lake, made)


def _backfill(lake: SmallLake, made: Play) -> None:
    lake.runs += 1
    if not lake.rows("pending_transactions") and not lake.rows("transactions"):
        return
    lake.step(backfill, lake.session, task="rebuild")
    counts = lake.step(backfill, lake.session, task="compare")
    assert counts["changes"] == 0 and counts["surplus"] == 0, f"a backfill of what is right differs: {counts}"
    lake.step(backfill, lake.session, task="apply")
    lake.step(backfill, lake.session, task="drop")


def _load(lake: SmallLake, made: Play) -> None:
    """Load one table as of what is shown."""
    csn = lake.shown_through()
    if csn is None or csn == 0:
        return
    table = made.made.tables[made.chance.choice(sorted(made.made.tables))]
    state = next((each.state for each in reversed(made.sent) if each.csn <= csn), None)
    rows = list(state[table.name].values()) if state else []
    lake.runs += 1
    folder = lake.folder / f"load-{lake.runs}" / table.name
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lake.step(load_snapshot, lake.session, path=str(folder.parent), csn=csn, ahead=True)
    lake.run()


def _rebuild(lake: SmallLake, made: Play) -> None:
    lake.lose_checkpoint()


def _optimize(lake: SmallLake, made: Play) -> None:
    for path in _tables(lake):
        DeltaTable(path).optimize.compact()


def _vacuum(lake: SmallLake, made: Play) -> None:
    """Delete all files that the newest cut does not need; a table that was compacted since keeps its files."""
    cuts = lake.rows("cuts")
    shown = dict(max(cuts, key=lambda cut: cut["cut_id"])["versions"]) if cuts else {}
    for path in _tables(lake):
        table = DeltaTable(path)
        if shown.get(Path(path).name, table.version()) != table.version():
            continue
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def _tables(lake: SmallLake) -> list[str]:
    return [
        str(path)
        for path in sorted(Path(lake.warehouse, lake.pipeline.name).iterdir())
        if (path / "_delta_log").is_dir()
    ]


OPERATE = {"backfill": _backfill, "load": _load, "rebuild": _rebuild, "optimize": _optimize, "vacuum": _vacuum}
