"""What people and schedules do between two runs: none of it changes what is shown."""

import json
from datetime import timedelta
from pathlib import Path

from deltalake import DeltaTable

from called import step_of
from txloom.quality.dead_letters import ALL, Selection
from txloom.steps.backfill.backfill import backfill
from txloom.steps.dead_letters.dismiss import dismiss
from txloom.steps.dead_letters.redrive import effect, redrive
from txloom.steps.maintenance.clean_history import clean_history
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.dead_letters import open_letters
from workloads.edited.retention import forget
from workloads.play import Play
from workloads.small_lake import AT_ONCE, SmallLake


def operate(lake: SmallLake, made: Play) -> None:
    """Do what people and schedules do between two runs."""
    chosen = [each for each in sorted(made.dimensions.operations) if made.chance.random() < 0.5]
    for each in chosen:
        OPERATE[each](lake, made)


def _backfill(lake: SmallLake, made: Play) -> None:
    lake.runs += 1
    if not lake.rows("pending_transactions") and not lake.rows("transactions"):
        return
    with lake.in_pieces():
        lake.step(backfill, lake.session, "rebuild")
        counts = lake.step(backfill, lake.session, "compare")
    assert counts["changes"] == 0 and counts["surplus"] == 0, f"a backfill of what is right differs: {counts}"
    lake.step(backfill, lake.session, "apply")
    lake.step(backfill, lake.session, "drop")


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
    lake.step(load_snapshot, lake.session, Snapshot(str(folder.parent), csn, ahead=True))
    lake.run()


def _rebuild(lake: SmallLake, made: Play) -> None:
    """Let the next run take in everything once more, in pieces of any size."""
    lake.lose_checkpoint()
    lake.at_once = made.chance.choice(AT_ONCE)


def _die(lake: SmallLake, made: Play) -> None:
    """Let the next run die between two writes, and lose its checkpoint with it."""
    lake.dies_after = made.chance.randint(1, 4)


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


def _redrive(lake: SmallLake, made: Play) -> None:
    """Land every open dead letter once more: what was no message is none again."""
    lake.runs += 1
    planned = effect(step_of(lake.pipeline, lake.warehouse, f"run-{lake.runs}"), ALL)
    done = lake.step(redrive, None, ALL)
    assert (planned.transactions, planned.events) == (done["transactions"], done["events"])
    lake.run()


def _dismiss(lake: SmallLake, made: Play) -> None:
    lake.runs += 1
    if open_letters.open_dead_letters(lake.paths, "kind").num_rows:
        lake.step(dismiss, None, Selection(everything=True), person="Ada", reason="no messages")
        assert not open_letters.open_dead_letters(lake.paths, "kind").num_rows
        if made.chance.random() < 0.3:
            lake.step(dismiss, None, Selection(everything=True), person="Ada", reason="a mistake", reopen=True)


def _remember(lake: SmallLake, made: Play) -> None:
    """Let maintenance write down what is open."""
    open_letters.remember(lake.paths)


def _clean(lake: SmallLake, made: Play) -> None:
    """Take away all of history that what is shown does not need."""
    kept = lake.pipeline.maintenance
    history = kept.history.model_copy(update={"keep": timedelta(0)})
    vacuum = kept.vacuum.model_copy(update={"retain": timedelta(0)})
    short = kept.model_copy(update={"history": history, "vacuum": vacuum})
    pipeline = lake.pipeline.model_copy(update={"maintenance": short})
    with lake.in_pieces():
        clean_history(step_of(pipeline, lake.warehouse, f"run-{lake.runs}", lake.session))


def _forget(lake: SmallLake, made: Play) -> None:
    forget(lake, made.chance)


OPERATE = {
    "backfill": _backfill,
    "clean": _clean,
    "die": _die,
    "dismiss": _dismiss,
    "forget": _forget,
    "load": _load,
    "optimize": _optimize,
    "rebuild": _rebuild,
    "redrive": _redrive,
    "remember": _remember,
    "vacuum": _vacuum,
}
