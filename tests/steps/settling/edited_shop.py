"""A shop whose declaration is edited: orders with lines, as GoldenGate sends them, over a lake without a JVM."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from txloom.config import load
from txloom.errors import TablesFailed
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.snapshots.load_snapshot import Snapshot, load_snapshot
from txloom.storage.declarations import records as r
from txloom.storage.declarations.records import State
from workloads.edited.edited_lake import dying_before
from workloads.operations import OPERATE
from workloads.small_lake import Died, SmallLake

Row = dict[str, Any]
ORDERS = {"id": "long", "total": "long"}
LINES = {"id": "long", "o_id": "long", "q": "long"}
DOCUMENTS = "{name: doc, root: orders, children: [{table: lines, as: items, relation: many, parent_key: [o_id]}]}"
HEAD = """
name: shop
source: {{format: goldengate, transaction_topic: {metadata}, unknown_tables: {unknown}, files: {{path: {inbox}}}}}
completeness: {{rule: counts, patience: {patience}}}
tables:
"""


LINE = "line"
"""A new name for the key column of lines."""


EXCHANGED = {"id": "{type: long, source: o_id}", "o_id": "{type: long, source: id}", "q": "long"}
"""The columns of lines, two of which exchange their names."""


def exchanged(rows: Iterable[Row]) -> list[Row]:
    """Return lines of the source under the names of `EXCHANGED`, in the order of `EditedShop.shown`."""
    return sorted((row | {"id": row["o_id"], "o_id": row["id"]} for row in rows), key=lambda row: row["id"])


@dataclass
class EditedShop:
    """A source with orders and lines, its state after each commit, and the lake of a declaration.

    head: the declaration up to its tables.
    renamed: the names under which the source sends columns now, by the name that they have in `state`.
    metadata: the topic of the metadata.
    """

    head: ClassVar[str] = HEAD
    folder: Path
    patience: str = "30m"
    csn: int = 100
    state: dict[str, dict[int, Row]] = field(default_factory=lambda: {"orders": {}, "lines": {}})
    states: dict[int, dict[str, dict[int, Row]]] = field(default_factory=dict)
    files: int = 0
    renamed: dict[str, str] = field(default_factory=dict)
    metadata: str = "meta"
    lake: SmallLake = field(init=False)

    def declare(
        self,
        tables: Mapping[str, Mapping[str, str]],
        mirrors: Sequence[str] = (),
        aggregates: Sequence[str] = (),
        sources: Mapping[str, str] | None = None,
        keys: Mapping[str, str] | None = None,
        **options: str,
    ) -> None:
        """Write the declaration: columns by table, `name: type` or `name: {type, source}`; targets as YAML.

        options: `incomplete` is the setting of the targets. `evolve` names the table that takes up undeclared columns,
        and `keeps` names the table that keeps dropped columns. `of_orders` has further keys of the table orders as
        YAML, such as `version: q`. `unknown_tables` is the setting of the source, and `debezium` has the entries of its
        key `debezium`. `rule: progress` leaves out the metadata. Every other option is a key of the pipeline, with its
        value as YAML.
        """
        (self.folder / "inbox").mkdir(exist_ok=True)
        of_source = {"unknown": options.pop("unknown_tables", "count"), "debezium": options.pop("debezium", "")}
        of_source |= {"inbox": str(self.folder / "inbox"), "metadata": self.metadata}
        text = self.head.format(patience=self.patience, **of_source)
        if options.pop("rule", "counts") == "progress":
            text = text.replace(f" transaction_topic: {self.metadata},", "")
            text = text.replace(f"rule: counts, patience: {self.patience}", "rule: progress")
        evolves, keeps = options.pop("evolve", None), options.pop("keeps", None)
        for name, columns in tables.items():
            source = (sources or {}).get(name, f"APP.{name.upper()}")
            key = (keys or {}).get(name, "[id]")
            listed = ", ".join(f"{column}: {kind}" for column, kind in columns.items())
            kept = ", undeclared_columns: evolve" if name == evolves else ""
            kept += ", dropped_columns: keep" if name == keeps else ""
            kept += f", {options.pop(key_of)}" if (key_of := f"of_{name}") in options else ""
            text += f"  - {{name: {name}, source: {source}, key: {key}{kept}, columns: {{{listed}}}}}\n"
        text += f"targets:\n  incomplete: {options.pop('incomplete', 'publish_without')}\n"
        text += f"  mirrors: [{', '.join(mirrors)}]\n  aggregates: [{', '.join(aggregates)}]\n"
        text += "".join(f"{name}: {value}\n" for name, value in options.items())
        self._write(text)

    def edit(self, before: str, after: str) -> None:
        """Replace a text of the declaration."""
        text = (self.folder / "shop.yaml").read_text()
        assert before in text
        self._write(text.replace(before, after))

    def _write(self, text: str) -> None:
        file = self.folder / "shop.yaml"
        file.write_text(text)
        if hasattr(self, "lake"):
            self.lake.pipeline = load(file)
        else:
            self.lake = SmallLake(self.folder, load(file))

    def commit(
        self, *changes: tuple[str, str, Row | int], late: Sequence[str] = (), sparse: bool = False
    ) -> dict[str, list[Row]]:
        """Commit one transaction and send it: ("I" or "U", table, row) or ("D", table, id).

        late: tables whose rows are held back; they are returned by topic. sparse: the images of an update have the
        columns of its row alone.
        """
        self.csn += 10
        held: dict[str, list[Row]] = {}
        counts: dict[str, int] = {}
        for pos, (op, table, what) in enumerate(changes, 1):
            key = what["id"] if isinstance(what, dict) else what
            before = self.state[table].get(key)
            after = {**(before or {}), **what} if isinstance(what, dict) else None
            if after is None:
                del self.state[table][key]
            else:
                self.state[table][key] = after
            counts[table] = counts.get(table, 0) + 1
            if sparse and before is not None and isinstance(what, dict):
                before, after = {name: before[name] for name in what}, what
            message = self._row(op, table, pos, before, after)
            if table in late:
                held.setdefault(table, []).append(message)
            else:
                self.send(table, message)
        self.states[self.csn] = deepcopy(self.state)
        self.send(self.metadata, self._metadata(counts))
        return held

    def send(self, topic: str, *messages: Row) -> None:
        """Write messages into a new file of a topic."""
        self.files += 1
        folder = self.folder / "inbox" / topic
        folder.mkdir(exist_ok=True)
        (folder / f"{self.files:04}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in messages))

    def _row(self, op: str, table: str, pos: int, before: Row | None, after: Row | None) -> Row:
        head = {"table": f"APP.{table.upper()}", "op_type": op, "op_ts": "2026-01-01 00:00:00.000000"}
        place = {"pos": str(pos), "xid": f"x{self.csn}", "csn": str(self.csn)}
        images = {name: self._sent(image) for name, image in (("before", before), ("after", after)) if image}
        return head | place | (images if op != "I" else {"after": images["after"]})

    def _sent(self, row: Row) -> Row:
        """Return a row as the source sends it now."""
        return {self.renamed.get(name, name): value for name, value in row.items()}

    def _exported(self, table: str, row: Row) -> Row:
        """Return a row of a table as the source exports it now."""
        return self._sent(row)

    def _metadata(self, counts: Mapping[str, int]) -> Row:
        parts = [{"data_collection": table.upper(), "event_count": count} for table, count in counts.items()]
        return {
            "xid": f"x{self.csn}",
            "csn": str(self.csn),
            "tx_ts": "2026-01-01 00:00:00.000000",
            "event_count": sum(counts.values()),
            "data_collections": parts,
        }

    def orders(self, *numbers: int) -> None:
        """Commit a new order for each number, with one line."""
        for number in numbers:
            line = {"id": 10 * number, "o_id": number, "q": number}
            self.commit(("I", "orders", {"id": number, "total": number}), ("I", "lines", line))

    def run(self) -> None:
        """Run one cycle."""
        self.lake.run()

    def die(self, commits: int) -> list[Died]:
        """Land, buffer and merge, but let the merge die before its next commit after so many commits.

        The list is empty if the merge did not die.
        """
        self.lake.land()
        self.lake.buffer()
        with dying_before(commits) as deaths, suppress(Died, TablesFailed):
            self.lake.step(merge_current, self.lake.session)
        return deaths

    @property
    def cut(self) -> Row:
        """Return the newest cut."""
        return max(self.lake.rows("cuts"), key=lambda each: int(each["cut_id"]))

    def shown(self, table: str) -> list[Row] | None:
        """Return the rows of a current table in the newest cut without txloom's columns; None: the cut lacks it."""
        version = dict(self.cut["versions"]).get(table)
        if version is None:
            return None
        rows = self.lake.rows(table, version)
        plain = [{name: value for name, value in row.items() if not name.startswith("_txloom_")} for row in rows]
        return sorted(plain, key=lambda row: row[LINE] if LINE in row else row["id"])

    def source(self, table: str, csn: int | None = None) -> list[Row]:
        """Return the rows that the source had as of what the newest cut shows, or as of a csn."""
        upto = self.cut["valid_through"] if csn is None else csn
        state = self.states[max(each for each in self.states if each <= upto)]
        return [state[table][key] for key in sorted(state[table])]

    def documents(self) -> list[Row]:
        """Return the documents that the rows of the source make."""
        lines = self.source("lines")
        of = {row["id"]: [each for each in lines if each["o_id"] == row["id"]] for row in self.source("orders")}
        return [{**row, "items": of[row["id"]]} for row in self.source("orders")]

    def states_of(self) -> dict[tuple[str, str], State]:
        """Return the state of each history's member."""
        return r.states(r.read(self.lake.paths))

    def load(self, table: str, csn: int | None = None, name: str | None = None) -> None:
        """Load the current rows of a source table, or the table's rows as of a csn, and run one cycle.

        name: the name of the table in the lake; None: the table has the same name as in the source.
        """
        snapshot = Snapshot(self.export(table, csn, name), csn or self.csn, ahead=True)
        self.lake.step(load_snapshot, self.lake.session, snapshot)
        self.run()

    def export(self, table: str, csn: int | None = None, name: str | None = None) -> str:
        """Write the rows of a table for `load`, and return the folder to load the rows from."""
        folder = self.folder / f"load-{csn or self.csn}" / (name or table)
        folder.mkdir(parents=True, exist_ok=True)
        state = self.state if csn is None else self.states[csn]
        rows = [self._exported(table, state[table][key]) for key in sorted(state[table])]
        (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return str(folder.parent)

    def clean(self) -> None:
        """Remove from histories what current tables do not need, as maintenance does."""
        OPERATE["clean"](self.lake, None)  # type: ignore[arg-type]

    def forget(self, *tables: str) -> None:
        """Remove the messages of landed rows as maintenance does with old ones: of some tables, or of all."""
        where = "kind = 'row'"
        where += f" and source_table in ({', '.join(repr(f'APP.{each.upper()}') for each in tables)})" if tables else ""
        self.lake.forget(where)
