"""Tables and documents merged in pieces of any size are what a merge of everything at once makes them."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from steps.merge.keyed import LIKELY, Change, Keyed, Odds, Scenario, die_behind_documents, scenarios, workload
from steps.merge.small_pieces import cut_small
from steps.merge.test_merge_any_keys import no_spark
from txloom.config import names
from txloom.errors import TxloomError
from txloom.quality.findings import SEVERAL
from txloom.steps.current import composition, first_fold, piece_merge
from txloom.storage.delta import arrow_tables
from txloom.storage.rewriting import pieces, rewrite
from txloom.storage.spark import tasks


@dataclass(frozen=True)
class Case:
    """A workload, how it is cut and cleaned, and how little is held in memory at once."""

    scenario: Scenario
    piece_bytes: int
    file_bytes: int
    gathered: int
    sample: int
    small_bytes: int
    relation: str
    mirrored: bool
    """Whether the pieced tables have mirrors; else their changes lie in the history of their documents."""
    killed: int
    """The release whose merge in pieces is killed behind its documents, and not repeated; 0: none."""


CASES = st.builds(
    Case,
    scenario=scenarios(4, orphan=LIKELY),
    piece_bytes=st.sampled_from((300, 1_500, 5_000, pieces.PIECE_BYTES)),
    file_bytes=st.sampled_from((200, 2_000, rewrite.FILE_BYTES)),
    gathered=st.sampled_from((1, 7, pieces.GATHERED)),
    sample=st.sampled_from((2, 10, piece_merge.SAMPLE)),
    small_bytes=st.sampled_from((0, first_fold.SMALL_BYTES)),
    relation=st.sampled_from(("many", "one")),
    mirrored=st.booleans(),
    killed=st.integers(0, 3),
)


@settings(max_examples=examples(30), deadline=None)
@given(CASES)
def test_any_workload_is_merged_to_the_same_tables_and_findings(tmp_path_factory: Any, case: Case) -> None:
    """Late changes and truncates, dropped columns, cleaned histories, changes of keys, rows that nobody knows."""
    scenario = case.scenario
    made, chance = (
        workload([scenario.table], scenario.seed, releases=scenario.releases, odds=scenario.odds),
        Random(scenario.seed),
    )
    folder, strange = tmp_path_factory.mktemp("engines"), made.worlds[scenario.table].new_key()
    whole, pieced = (
        Keyed(folder / name, [scenario.table], relation=case.relation, mirrored=mirrored)
        for name, mirrored in (("whole", True), ("pieced", case.mirrored or scenario.is_cleaned))
    )
    for number, released in enumerate(made.releases):
        for lake in (whole, pieced):
            # A value that nobody's row has of a dropped column is nulled or not, as the row happens to be read. And
            # only lakes whose tables have merged equally far tell alike which changes are late, and who folds anew
            # deletes a row that no history produces: none is written before the merge behind a killed one is through.
            if number > case.killed and scenario.has_strange_row and not scenario.odds.drop:
                lake.write_into(scenario.table, strange)
            lake.release(released)
        whole.merge(no_spark)
        with pytest.MonkeyPatch.context() as limits:
            limits.setattr(pieces, "PIECE_BYTES", case.piece_bytes)
            limits.setattr(pieces, "AT_ONCE_BYTES", case.piece_bytes)
            limits.setattr(pieces, "GATHERED", case.gathered)
            limits.setattr(rewrite, "FILE_BYTES", case.file_bytes)
            limits.setattr(piece_merge, "SAMPLE", case.sample)
            limits.setattr(first_fold, "SMALL_BYTES", case.small_bytes)
            if number + 1 == case.killed < len(made.releases):
                die_behind_documents(limits, pieced.paths)
                with suppress(TxloomError):
                    pieced.merge(no_spark)
                continue
            pieced.merge(no_spark)
        shown, expected = _of(pieced), _of(whole)
        if 0 < case.killed <= number:
            # A killed merge has said already which columns are gone, so that the next one sees them go once more.
            del shown["findings"], expected["findings"]
        assert shown == expected, f"after release {number + 1}"
        if scenario.is_cleaned:
            horizon = chance.randrange(10, 130)
            whole.clean(horizon)
            with pytest.MonkeyPatch.context() as limits:
                cut_small(limits, case.piece_bytes)
                pieced.clean(horizon)
            assert pieced.history(scenario.table) == whole.history(scenario.table)
    if not (scenario.is_cleaned or scenario.has_strange_row or scenario.odds.truncate or scenario.odds.drop):
        assert pieced.rows(scenario.table) == made.worlds[scenario.table].rows
        if case.relation == "many":
            assert pieced.lines(scenario.table) == made.worlds[scenario.table].lines()


@pytest.mark.parametrize("master", ["local[2]", "spark://elsewhere:7077"])
def test_tasks_make_pieces_to_the_same_tables(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    """In processes of this machine; and in those of another, which read the pieces in the lake."""
    made = workload(["by_long"], 5, transactions=30, odds=Odds(late=0.3, truncate=0.1, drop=0.2))
    whole, pieced = (Keyed(tmp_path / name, ["by_long"]) for name in ("whole", "pieced"))
    monkeypatch.setenv(tasks.MASTER, master)
    monkeypatch.setattr(tasks, "_is_session_open", lambda: False)
    done, in_tasks = list[piece_merge.Piece | composition.Piece](), tasks.in_tasks

    def noted(session: Any, items: Any, work: Any) -> list[Any]:
        done.extend(items)
        return in_tasks(session, items, work)

    monkeypatch.setattr(tasks, "in_tasks", noted)
    for number, released in enumerate(made.releases):
        for lake in (whole, pieced):
            lake.release(released)
        whole.merge(no_spark)
        with pytest.MonkeyPatch.context() as limits:
            limits.setattr(pieces, "PIECE_BYTES", 500)
            limits.setattr(pieces, "AT_ONCE_BYTES", 0)
            for module in (piece_merge, composition):
                limits.setattr(module, "TASK_BYTES", 0)
            pieced.merge(lambda: spark)
        assert _of(pieced) == _of(whole), f"after release {number + 1}"
    folded = [each.changes for each in done if isinstance(each, piece_merge.Piece)]
    composed = [file for each in done if isinstance(each, composition.Piece) for file in each.rows]
    for files in (folded, composed):
        assert len(files) > 2 * len(made.releases)
        assert all(("pieced" in file) == (master != "local[2]") for file in files if file)
    assert not list(tmp_path.rglob("*.arrow")), "pieces are gone"


def _of(lake: Keyed) -> dict[str, list[str]]:
    """Return the rows of all tables, and findings; which row of a transaction shows one is left open.

    Of several children it is not: the first document by csn and key is named, however documents are cut into pieces.
    """
    shown = f"case when code = '{SEVERAL}' then evidence end as evidence"
    columns = f'code, "table", "column", since_csn, xid, status, {shown}'
    known = arrow_tables.select(lake.paths.table(names.FINDINGS), f"select {columns} from t")
    return lake.content() | {"findings": sorted(map(repr, known.to_pylist()))}


def test_a_late_change_is_folded_with_all_that_became_of_its_row(tmp_path: Path) -> None:
    """Its row has another key since, and has changed under it."""
    lake = Keyed(tmp_path / "lake", ["by_long"], documented=[])
    inserted, moved = Change("I", {}, {"k0": 1, "v": 1, "w": "w"}), Change("U", {"k0": 1}, {"k0": 2})
    lake.release({"by_long": {10: [inserted], 30: [moved], 40: [Change("U", {"k0": 2}, {"k0": 2, "v": 4})]}})
    lake.merge(no_spark)
    lake.release({"by_long": {20: [Change("U", {"k0": 1}, {"k0": 1, "w": "late"})]}})
    lake.merge(no_spark)
    assert lake.rows("by_long") == {(2,): {"k0": 2, "v": 4, "w": "late"}}


def test_rows_that_lie_between_changed_keys_stay(tmp_path: Path) -> None:
    """Each column of their key has a value that a changed key has, and no changed key has both."""
    lake = Keyed(tmp_path / "lake", ["by_bytes_and_number"], documented=[])
    keys = [(k0, k1) for k0 in (b"a", b"b") for k1 in (1, 2)]
    lake.release({"by_bytes_and_number": {10: [Change("I", {}, {"k0": k0, "k1": k1, "v": 1}) for k0, k1 in keys]}})
    lake.merge(no_spark)
    some = [{"k0": b"a", "k1": 1}, {"k0": b"b", "k1": 2}]
    lake.release({"by_bytes_and_number": {20: [Change("U", key, {**key, "v": 2}) for key in some]}})
    lake.merge(no_spark)
    shown = {key: row["v"] for key, row in lake.rows("by_bytes_and_number").items()}
    assert shown == {(b"a", 1): 2, (b"a", 2): 1, (b"b", 1): 1, (b"b", 2): 2}
