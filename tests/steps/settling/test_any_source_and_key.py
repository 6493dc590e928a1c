"""Test random edits of a table's source, key and column names, with removed messages and loaded snapshots."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from steps.settling.edited_shop import DOCUMENTS, EXCHANGED, LINES, ORDERS, EditedShop, Row, exchanged
from steps.settling.test_settle import as_of
from txloom.errors import BeforeHistory

NUMBERS = (1, 2, 3)


@dataclass
class Edited:
    """A shop whose table `lines` gets other sources, keys and column names.

    forgotten: the csn up to which messages are gone.
    """

    shop: EditedShop
    source: str = "lines"
    exchanged: bool = False
    forgotten: int = 0

    def declare(self, source: str, key: str, exchanged: bool, documents: bool) -> None:
        self.source, self.exchanged = source, exchanged
        self.shop.declare(
            {"orders": ORDERS, "lines": EXCHANGED if exchanged else LINES},
            ["{table: orders}", "{table: lines}"],
            [DOCUMENTS] if documents else [],
            {"lines": f"APP.{source.upper()}"},
            {"lines": key},
        )

    def commit(self, table: str, number: int, value: int, deleted: bool) -> None:
        """Commit a delete of one row, or an insert or update of one row together with its order."""
        row, known = {"id": 10 * number, "o_id": number, "q": value}, self.shop.state[table]
        if deleted and row["id"] in known:
            self.shop.commit(("D", table, row["id"]))
        else:
            order = ("U" if number in self.shop.state["orders"] else "I", "orders", {"id": number, "total": value})
            self.shop.commit(("U" if row["id"] in known else "I", table, row), order)

    def forget(self, share: float) -> None:
        csns = sorted(self.shop.states)
        self.forgotten = max(self.forgotten, csns[int(share * (len(csns) - 1))])
        self.shop.lake.forget(f"kind = 'row' and csn <= {self.forgotten}")

    def die(self, commits: int) -> None:
        """Let a merge die before its next commit after it has made so many commits."""
        self.shop.die(commits)

    def load(self, share: float) -> None:
        """Load lines as of the last missing commit or a later commit, if their history is incomplete."""
        newest = self.shop.states_of()["lines_changes", "lines"].newest
        csns = [csn for csn in sorted(self.shop.states) if csn >= newest.since_csn - 1]
        if csns and newest.status == "incomplete":
            self.shop.load(self.source, csns[int(share * (len(csns) - 1))], "lines")

    def expected(self, csn: int) -> list[Row]:
        rows = self.shop.source(self.source, csn)
        return exchanged(rows) if self.exchanged else rows

    def judge(self) -> None:
        """Check that the newest cut shows lines as in the source, or leaves lines out because messages are gone."""
        shown = self.shop.shown("lines")
        if shown is None:
            assert self.forgotten
            return
        assert shown == self.expected(self.shop.cut["valid_through"])
        for csn in self.shop.states:
            with suppress(BeforeHistory):
                rows = as_of(self.shop, "lines", csn)
                assert sorted(rows, key=lambda row: row["id"]) == self.expected(csn), csn


KEYS = ("[id, o_id]", "[o_id, id]")
SOURCES = st.sampled_from(("lines", "other"))
SHARES = st.floats(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("declare"), SOURCES, st.sampled_from(KEYS), st.booleans(), st.booleans()),
    st.tuples(st.just("commit"), SOURCES, st.sampled_from(NUMBERS), st.integers(0, 99), st.booleans()),
    st.tuples(st.just("forget"), SHARES),
    st.tuples(st.just("die"), st.integers(0, 9)),
    st.tuples(st.just("load"), SHARES),
    st.tuples(st.just("run")),
)


@given(st.lists(STEPS, min_size=4, max_size=14))
@settings(max_examples=examples(6), deadline=None)
def test_lines_are_those_of_the_declared_source_or_left_out(drawn: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder:
        shop = EditedShop(Path(folder))
        shop.state["other"] = {}
        edited = Edited(shop)
        edited.declare("lines", KEYS[0], exchanged=False, documents=False)
        for number in NUMBERS:
            edited.commit("lines", number, number, deleted=False)
            edited.commit("other", number, 100 * number, deleted=False)
        shop.run()
        for name, *values in drawn:
            if name == "run":
                shop.run()
                edited.judge()
            else:
                getattr(edited, name)(*values)
        for _ in range(2):
            shop.run()
        edited.judge()
        edited.load(0)
        shop.run()
        assert shop.shown("lines") is not None
        edited.judge()
