"""What must hold of a lake: every cut and every version is a state that the source had, and nothing is lost."""

import json
from bisect import bisect_left
from collections import Counter
from random import Random
from unittest.mock import patch

from deltalake import DeltaTable

from oracle import comparison
from oracle.documents import several
from txloom.quality import findings as f
from txloom.storage.checks import findings
from txloom.storage.dead_letters import open_letters
from workloads.forged import forged
from workloads.inbox import Producer
from workloads.operations import operate
from workloads.play import Play
from workloads.small_lake import AT_ONCE, SmallLake
from workloads.sources.extracts import Extractor
from workloads.sources.truth import DOCUMENTS, expected_tables, keyed, keys


def run_through(lake: SmallLake, made: Play, producer: Producer | Extractor) -> None:
    """Run a workload through a lake, landing by landing, and look at what is shown after each."""
    lake.at_once = Random(made.seed).choice(AT_ONCE)
    for number, messages in enumerate(made.landings, 1):
        producer.deliver([*messages, *forged(lake, made)], last=number == len(made.landings))
        if number < len(made.landings) and made.chance.random() < 0.25:
            lake.land()
            continue
        lake.run()
        operate(lake, made)
        assert_what_is_open_is_known(lake)
        if made.dimensions.in_order:
            assert_newest(lake, made)
    lake.run()
    assert_newest(lake, made)
    assert_all_is_accounted_for(lake, made, producer)
    is_shown = made.dimensions.in_order and not made.dimensions.impatient
    if is_shown and "vacuum" not in made.dimensions.operations:
        assert_every_version_is_a_state(lake, made)


def assert_newest(lake: SmallLake, made: Play) -> None:
    """The newest cut is a state that the source had."""
    cuts = lake.rows("cuts")
    if not cuts:
        return
    cut = max(cuts, key=lambda each: each["cut_id"])
    if cut["gaps"] and made.dimensions.impatient:
        return
    assert not cut["gaps"], f"gaps: {cut['gaps']}"
    versions = dict(cut["versions"])
    actual = {name: keyed(lake.rows(name, versions[name]), key) for name, key in keys(made.made).items()}
    differences = comparison.differences(expected_tables(made.made, made.sent, cut["valid_through"]), actual)
    assert not differences, f"cut {cut['cut_id']} as of {cut['valid_through']}:\n{comparison.report(differences)}"


def assert_what_is_open_is_known(lake: SmallLake) -> None:
    """The same is open by what maintenance wrote down as by comparing everything."""
    letters = open_letters.open_dead_letters(lake.paths, 'landing, "row"', "order by 1, 2")
    dead = open_letters.given_up(lake.paths)
    with patch.object(open_letters, "known_open", return_value=None):
        assert letters == open_letters.open_dead_letters(lake.paths, 'landing, "row"', "order by 1, 2")
        assert dead == open_letters.given_up(lake.paths)


def assert_every_version_is_a_state(lake: SmallLake, made: Play) -> None:
    for name, key in keys(made.made).items():
        path = lake.paths.table(name)
        for commit in DeltaTable(path).history():
            if "userMetadata" not in commit:
                continue
            csn = json.loads(commit["userMetadata"])["valid_through"]
            expected = {name: expected_tables(made.made, made.sent, csn)[name]}
            differences = comparison.differences(expected, {name: keyed(lake.rows(name, commit["version"]), key)})
            assert not differences, f"{name} version {commit['version']} as of {csn}:\n{comparison.report(differences)}"


def assert_all_is_accounted_for(lake: SmallLake, made: Play, producer: Producer | Extractor) -> None:
    """Everything was released once, nothing waits, nothing is dead but what was no message."""
    assert (lake.shown_through() or 0) >= _last_with_metadata(made), f"not through {_last_with_metadata(made)}"
    assert not lake.rows("pending_transactions"), lake.rows("pending_transactions")
    letters = lake.rows("dead_letters")
    if made.dimensions.impatient:
        letters = open_letters.open_dead_letters(lake.paths, "value, transaction_id, cause, detail").to_pylist()
    letters = [row for row in letters if row["value"] not in producer.junk | made.forged]
    assert not letters, f"dead: {letters[:3]}"
    open_findings = findings.open_findings(lake.paths)
    lacked = getattr(made.writer, "lacked", set())
    codes = {row["code"] for row in open_findings} - {f.NOT_EXTRACTED, f.SEVERAL}
    named = {(row["table"], row["column"]) for row in open_findings if row["code"] == f.SEVERAL}
    assert named == _several(made), f"children of one: {named}"
    assert {(row["table"], row["column"]) for row in open_findings if row["code"] == f.NOT_EXTRACTED} <= lacked
    true_ones = {f.DROPPED, f.RENAMED, f.NULLS_OMITTED}
    true_ones |= {f.XID_AGAIN} if made.dimensions.is_ordered or made.dimensions.wraps else set()
    true_ones |= {f.CHANGED, f.UNKNOWN_ROW, f.KEY_TWICE} if made.dimensions.impatient else set()
    assert codes <= true_ones, f"findings: {codes}"
    ends, shown = [each.csn for each in made.sent], Counter[int]()
    for name in made.made.tables:
        rows = [row for row in lake.rows(f"{name}_changes") if not str(row["_txloom_xid"]).startswith("_txloom_")]
        places = Counter((row["_txloom_csn"], row["_txloom_xid"], row["_txloom_pos"]) for row in rows)
        assert all(count == 1 for count in places.values()), f"{name}: {places.most_common(3)}"
        shown += Counter(_end(row["_txloom_csn"], ends, alone=made.dimensions.is_alone) for row in rows)
    expected = Counter({each.csn: size for each in made.sent if (size := made.writer.history(each.changes))})
    expected += Counter({ends[0] if ends else 0: made.repeated})
    lacking = expected - shown if "clean" not in made.dimensions.operations else None
    assert not shown - expected and not lacking, f"history: {shown - expected} too many, {lacking} too few"


def _several(made: Play) -> set[tuple[str, str]]:
    """Return the document's table and the fields of the relation `one` of which some document has several rows."""
    if made.made.aggregate is None or not made.sent:
        return set()
    return {(DOCUMENTS, field) for field in several(made.sent[-1].state, made.made.aggregate)}


def _last_with_metadata(made: Play) -> int:
    """Return the last csn that must show: a truncate of MySQL, of which no metadata tells, shows with what follows."""
    is_counted = made.dimensions.family == "debezium"
    with_metadata = (
        each for each in made.sent if each.changes and not (is_counted and each.number >= 0 and not each.metadata)
    )
    return max((each.csn for each in with_metadata), default=0)


def _end(csn: int, ends: list[int], *, alone: bool) -> int:
    """Return the csn of the transaction that a row of history is of: its own, but where each change stands alone.

    What a snapshot that was given up had lies in front of all.
    """
    return ends[min(bisect_left(ends, csn), len(ends) - 1)] if alone else max(csn, ends[0])
