"""Warehouses whose tables have keys of any type, and random changes of their rows, released in any order."""

import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import strategies as st

from called import step_of
from txloom.config import load, names
from txloom.events.values.scalars import arrow_type
from txloom.steps.merge.merge_current import merge_current
from txloom.steps.step import no_session
from txloom.storage import system_tables
from txloom.storage.delta import arrow_tables, small_merge, small_tables
from txloom.storage.maintenance.history_cleaning import Cleaning
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark, watermark_of
from txloom.storage.rewriting.rewrite import Rewrite
from txloom.storage.targets import history_reader, history_tables, schemas
from txloom.storage.targets.row_tables import row_tables

Row = dict[str, Any]
Key = tuple[Any, ...]


def _decimal(precision: int, scale: int, random: random.Random) -> Decimal:
    digits = random.choice([1, 2, precision // 2, precision - 1, precision]) or 1
    number = random.choice([0, 5, 10**digits - 1, random.randrange(10**digits)])
    return Decimal((random.randrange(2), tuple(map(int, str(number))), -scale))


def _moment(random: random.Random) -> datetime:
    first, last = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)
    edges = (first, last, datetime(9999, 12, 31), datetime(1677, 9, 21), datetime(2262, 4, 12), datetime(1970, 1, 1))
    back = datetime(1969, 12, 31, 23, 59, 59, 999_999)
    return random.choice([*edges, back, first + timedelta(microseconds=random.randrange((last - first) // _MICRO))])


_MICRO = timedelta(microseconds=1)
TEXTS = ("", " ", "it's", "a\\'b", 'say "x"', "\\", "%", "--", "null", "NULL", "ü", "\U0001f600", "a\nb", "\x00", "7")
TEXTS += (
    "x" * 31 + "y",
    "x" * 32,
    "x" * 33 + "z",
    "x" * 40,
    "\U0001f600" * 40,
    "\U0010ffff" * 33,
    "__HIVE_DEFAULT_PARTITION__",
)
DRAW: Mapping[str, Callable[[random.Random], Any]] = {
    "long": lambda r: r.choice([0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, r.randrange(-(2**63), 2**63)]),
    "int": lambda r: r.choice([0, 1, 2**31 - 1, -(2**31), r.randrange(-(2**31), 2**31)]),
    "boolean": lambda r: r.random() < 0.5,
    "string": lambda r: r.choice([*TEXTS, f"k{r.randrange(50)}"]),
    "date": lambda r: r.choice([date(1, 1, 1), date(9999, 12, 31), date.fromordinal(r.randrange(1, 3_652_060))]),
    "timestamp": _moment,
    "timestamptz": lambda r: _moment(r).replace(tzinfo=UTC),
    "time": lambda r: r.choice(["00:00:00", "24:00:00", f"10:11:{r.randrange(10, 60)}.{r.randrange(1, 10**6)}"]),
    "uuid": lambda r: str(uuid.UUID(int=r.getrandbits(128))),
    "binary": lambda r: r.choice([b"", b"\x00", b"it's", b"\xff" * 40, r.randbytes(3)]),
}
KEYS: Mapping[str, tuple[str, ...]] = {
    **{f"by_{kind}": (kind,) for kind in DRAW},
    "by_decimal38": ("decimal(38,0)",),
    "by_decimal38_10": ("decimal(38,10)",),
    "by_decimal38_38": ("decimal(38,38)",),
    "by_decimal20_4": ("decimal(20,4)",),
    "by_decimal10_2": ("decimal(10,2)",),
    "by_decimal_and_text": ("decimal(38,10)", "string"),
    "by_flag_and_moment": ("boolean", "timestamp"),
    "by_bytes_and_number": ("binary", "long"),
}
"""Tables, and the types of their keys: every type that may be one, and some together."""


def drawn(kind: str, random: random.Random) -> Any:
    """Return a random value of a declared type, an edge of it as often as not."""
    if kind.startswith("decimal"):
        precision, scale = map(int, kind[8:-1].split(","))
        return _decimal(precision, scale, random)
    return DRAW[kind](random)


@dataclass(frozen=True)
class Change:
    """One change: what is known of the row before, what is told of it after; absent: columns that an insert lacks."""

    op: str
    before: Row = field(default_factory=dict)
    after: Row = field(default_factory=dict)
    absent: tuple[str, ...] = ()


Transactions = Mapping[int, Sequence[Change]]


@dataclass
class Keyed:
    """A warehouse of tables by their keys' types; each is a mirror, and the root of documents with lines."""

    folder: Path
    tables: Sequence[str]
    documented: Sequence[str] | None = None
    """The tables whose lines are watched too; by default all."""
    releases: int = 0
    relation: str = "many"
    """How lines hang below their root: many, or the last one by its key; none: documents have no children."""
    mirrored: bool = True
    """Whether tables with documents have mirrors too; else the history of their documents has their changes."""

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        file = self.folder / "keys.yaml"
        if self.documented is None:
            self.documented = self.tables
        tables, targets = [], []
        for name in self.tables:
            key = [f"k{number}" for number in range(len(KEYS[name]))]
            columns = [f"{each}: '{kind}'" for each, kind in zip(key, KEYS[name], strict=True)]
            tables.append(f"- {{name: {name}, source: S.{name.upper()}, key: [{', '.join(key)}], ")
            tables[-1] += f"columns: {{{', '.join(columns)}, v: long, w: string}}}}"
            if name not in self.documented:
                continue
            if self.relation == "none":
                targets.append(f"- {{name: {name}_doc, root: {name}}}")
                continue
            tables.append(f"- {{name: {name}_line, source: S.{name.upper()}_LINE, key: [id], ")
            tables[-1] += f"columns: {{id: long, {', '.join(columns)}}}}}"
            children = f"{{table: {name}_line, as: lines, relation: {self.relation}, "
            children += f"parent_key: [{', '.join(key)}]}}"
            targets.append(f"- {{name: {name}_doc, root: {name}, children: [{children}]}}")
        alone = [name for name in self.tables if name not in self.documented]
        lines_of = [f"{name}_line" for name in self.documented if self.relation != "none"]
        mirrors = [*self.tables, *lines_of] if self.mirrored else alone
        lines = [
            f"name: keys\nsource: {{format: change_events, files: {{path: {self.folder}}}}}",
            "completeness: {rule: single}\ntables:",
            *[f"  {line}" for line in tables],
            f"targets:\n  mirrors: [{', '.join(mirrors)}]",
            *(["  aggregates:"] if targets else []),
            *[f"    {line}" for line in targets],
        ]
        file.write_text("\n".join(lines) + "\n")
        self.pipeline = load(file)
        self.paths = TablePaths(str(self.folder), "keys")
        history_tables.create(self.pipeline, self.paths)

    def release(self, changes: Mapping[str, Transactions]) -> None:
        """Release transactions, by table and csn; all tables have the same csns."""
        self.releases += 1
        csns = set[int]()
        watched = {table.name for table in self.pipeline.tables}
        for table, transactions in changes.items():
            if table not in watched:
                continue
            rows = [
                self._row(table, change, {"xid": f"x{csn}", "csn": csn, "pos": pos, "row": 1_000 * csn + pos})
                for csn, changes in transactions.items()
                for pos, change in enumerate(changes)
            ]
            self._append(table, rows)
            csns |= set(transactions)
        done = [{"xid": f"x{csn}", "csn": csn, "status": "released", "release": self.releases} for csn in sorted(csns)]
        small_tables.append(self.paths.table(names.TRANSACTIONS), done, system_tables.TRANSACTIONS)
        about = {"release": self.releases, "landing": self.releases}
        small_tables.replace(
            self.paths.table(names.PENDING_TRANSACTIONS), [], system_tables.PENDING_TRANSACTIONS, about
        )

    def _append(self, table: str, rows: Sequence[Row]) -> None:
        """Append changes to the history that has them: that of the table, or one of documents."""
        (row_table,) = (each for each in row_tables(self.pipeline) if each.table.name == table)
        if row_table.aggregate is None:
            schema = schemas.changes_schema(row_table.table)
        else:
            schema = schemas.stream_schema(self.pipeline, row_table.aggregate)
            rows = [{**{name: row.get(name) for name in history_reader.SHARED}, row_table.field: [row]} for row in rows]
        small_tables.append(self.paths.table(row_table.history), rows, schema)

    def _row(self, table: str, change: Change, paths: Mapping[str, Any]) -> Row:
        declared = self.pipeline.table(table)
        left = [name for name in declared.column_names if name not in change.after] if change.op == "U" else []
        row_columns = {**paths, "release": self.releases, "landing": self.releases}
        row_columns |= {"op": change.op, "before": change.before or None}
        row_columns |= {"before_known": list(change.before) or None, "absent": list(change.absent) or None}
        row_columns["unchanged"] = [name for name in left if name not in declared.key] or None
        image = change.before if change.op == "D" else change.after
        return {**image, **{f"_txloom_{name}": value for name, value in row_columns.items()}}

    def merge(self, spark: Callable[[], Any]) -> dict[str, int]:
        """Merge all tables."""
        return merge_current(step_of(self.pipeline, self.folder, f"run-{self.releases}", spark))

    def clean(self, csn: int) -> int:
        """Take superseded rows up to a csn away from the histories; return how many. What is not merged stays."""
        removed = 0
        for row_table in (each for each in row_tables(self.pipeline) if each.mirror is not None):
            merged = watermark_of(self.paths.table(row_table.current))
            upto = Watermark(min(csn, merged.valid_through), merged.release)
            if upto.valid_through > history_reader.cleaned(self.paths, row_table):
                removed += Cleaning(self.paths, row_table, upto).clean(no_session)
        return removed

    def write_into(self, table: str, key: Key) -> None:
        """Write a row of a key into a mirror, as somebody would who knows nothing of its history."""
        path, declared = self.paths.table(self._current(table)), self.pipeline.table(table)
        row = {**dict(zip(declared.key, key, strict=True)), "v": -1, "_txloom_csn": 1, "_txloom_pos": 0}
        fields = arrow_tables.plain_schema(pa.schema(DeltaTable(path).schema().to_arrow()))
        rows = pa.Table.from_pylist([{**row, "_txloom_xid": "nobody"}], fields)
        effects = rows.append_column("_txloom_deleted", pa.array([False]))
        small_merge.merge(path, effects, declared.key, vars(watermark_of(path)))

    def content(self) -> dict[str, list[str]]:
        """Return what every current table and the findings hold, as comparable text."""
        content = {}
        stores = [each.current for each in row_tables(self.pipeline)]
        for table in dict.fromkeys([*self.pipeline.current_tables, *stores]):
            rows = arrow_tables.select(self.paths.table(table), "select * from t").to_pylist()
            for row in rows:
                if isinstance(row.get("lines"), list):
                    row["lines"] = sorted(map(repr, row["lines"]))
            content[table.removeprefix("_rows_")] = sorted(map(repr, rows))
        columns = 'code, "table", "column", since_csn, xid, evidence, status'
        finding_rows = arrow_tables.select(self.paths.table(names.FINDINGS), f"select {columns} from t").to_pylist()
        return content | {"findings": sorted(map(repr, finding_rows))}

    def rows(self, table: str) -> dict[Key, Row]:
        """Return a mirror's rows by key, without txloom's own columns."""
        declared = self.pipeline.table(table)
        rows = arrow_tables.select(self.paths.table(self._current(table)), "select * from t").to_pylist()
        return {
            tuple(row[name] for name in declared.key): {name: row[name] for name in declared.column_names}
            for row in rows
        }

    def _current(self, table: str) -> str:
        return next(each.current for each in row_tables(self.pipeline) if each.table.name == table)

    def history(self, table: str) -> list[str]:
        """Return the rows of a mirror's history, as comparable text."""
        path = self.paths.table(f"{table}_changes")
        return sorted(map(repr, arrow_tables.select(path, "select * from t").to_pylist()))

    def lines(self, table: str) -> dict[Key, list[int]]:
        """Return the lines of each document by its key."""
        key = self.pipeline.table(table).key
        rows = arrow_tables.select(self.paths.table(f"{table}_doc_current"), "select * from t").to_pylist()
        return {tuple(row[name] for name in key): sorted(line["id"] for line in row["lines"]) for row in rows}


def die_behind_documents(monkeypatch: Any, paths: TablePaths) -> None:
    """Let merges fail when their documents are written, and the tables that these are made of are not."""
    commit = Rewrite.commit

    def only_documents(rewrite: Rewrite, metadata: Mapping[str, Any]) -> None:
        if not rewrite.files.path.endswith("_current"):
            raise RuntimeError(f"killed before {rewrite.files.path.removeprefix(paths.warehouse)} was written")
        commit(rewrite, metadata)

    monkeypatch.setattr(Rewrite, "commit", only_documents)


@dataclass(frozen=True)
class Odds:
    """How likely is what a few transactions would hardly hold, between 0 and 1; what is 0 draws nothing."""

    late: float = 0.25
    """That a transaction comes in a later release than its neighbours."""
    truncate: float = 0
    """That a transaction truncates its table; lines are truncated half as often."""
    drop: float = 0
    """That a column is dropped before a transaction, or one that was dropped comes back."""
    orphan: float = 0
    """That a line names no parent, and that lines change in other ways than to move."""


@dataclass(frozen=True)
class Scenario:
    """A workload of one table, and how it is cut and cleaned."""

    table: str
    seed: int
    odds: Odds
    releases: int
    is_cleaned: bool
    has_strange_row: bool


LIKELY = st.sampled_from((0.0, 0.15, 0.4))


def scenarios(most_releases: int, *, orphan: st.SearchStrategy[float]) -> st.SearchStrategy[Scenario]:
    """Draw workloads of at least two releases; orphan: draws how likely lines change in other ways than to move."""
    late = st.sampled_from((0.0, 0.3, 0.6))
    return st.builds(
        Scenario,
        table=st.sampled_from(sorted(KEYS)),
        seed=st.integers(0, 2**32),
        odds=st.builds(Odds, late=late, truncate=LIKELY, drop=LIKELY, orphan=orphan),
        releases=st.integers(2, most_releases),
        is_cleaned=st.booleans(),
        has_strange_row=st.booleans(),
    )


@dataclass
class World:
    """Rows of one table, and of the lines below them, as their source has them; it makes changes at random."""

    table: str
    random: random.Random
    odds: Odds = field(default_factory=Odds)
    rows: dict[Key, Row] = field(default_factory=dict)
    below: dict[int, Row] = field(default_factory=dict)
    made: int = 0
    dropped: set[str] = field(default_factory=set)
    """Columns that rows do not have now: inserts lack them, and no change has a value of one."""

    def __post_init__(self) -> None:
        self.kinds = KEYS[self.table]
        self.key = [f"k{number}" for number in range(len(self.kinds))]

    def new_key(self) -> Key:
        """Draw a key, which a row may have."""
        values = (_stored(kind, drawn(kind, self.random)) for kind in self.kinds)
        return tuple(values)

    def transaction(self) -> tuple[list[Change], list[Change]]:
        """Commit a random transaction; return the changes of rows and those of lines."""
        if self._is_drawn(self.odds.drop):
            self.dropped ^= {self.random.choice(["v", "w"])}
        changes = [change for _ in range(self.random.randrange(1, 6)) for change in self._change()]
        lines = [change for _ in range(self.random.randrange(3)) for change in self._line()]
        if self._is_drawn(self.odds.truncate):
            self.rows.clear()
            changes.insert(self.random.randrange(len(changes) + 1), Change("T"))
        if self._is_drawn(self.odds.truncate / 2):
            self.below.clear()
            lines.append(Change("T"))
        return changes, lines

    def _is_drawn(self, likely: float) -> bool:
        return likely > 0 and self.random.random() < likely

    def _change(self) -> Iterator[Change]:
        what = self.random.choice("IIIIUUUUDKKL" + "T" * (self.random.random() < 0.1))
        new, old = self.new_key(), self.random.choice(list(self.rows)) if self.rows else None
        if what == "T":
            self.rows.clear()
            yield Change("T")
        elif what in "IL" and new not in self.rows:
            yield self._insert(new, lacking=what == "L")
        elif old is None:
            return
        elif what == "U":
            yield self._update(old, old)
        elif what == "K" and new not in self.rows:
            yield self._update(old, new)
        elif what == "D":
            del self.rows[old]
            yield Change("D", self._named(old))

    def _named(self, key: Key) -> Row:
        return dict(zip(self.key, key, strict=True))

    def _insert(self, key: Key, *, lacking: bool) -> Change:
        self.made += 1
        values = {**self._named(key), "v": self.made, "w": self.random.choice([None, f"w{self.made}"])}
        absent = tuple(sorted(self.dropped | ({"v"} if lacking else set())))
        for name in absent:
            values.pop(name)
            for row in self.rows.values():
                row[name] = None
        self.rows[key] = {"v": None, "w": None, **values}
        return Change("I", {}, values, absent)

    def _update(self, old: Key, new: Key) -> Change:
        self.made += 1
        row = self.rows.pop(old) | self._named(new)
        values: Row = {"v": self.made} if self.random.random() < 0.5 else {"w": f"w{self.made}"}
        values = {name: value for name, value in values.items() if name not in self.dropped}
        self.rows[new] = row | values
        before = self._named(old)
        if self.random.random() < 0.5:
            before = {name: value for name, value in before.items() if value != self._named(new)[name]}
        return Change("U", before, self._named(new) | values)

    def _line(self) -> Iterator[Change]:
        self.made += 1
        parent = self.random.choice(list(self.rows)) if self.rows and self.random.random() < 0.9 else self.new_key()
        line = self.random.choice(list(self.below)) if self.below else None
        if self._is_drawn(self.odds.orphan):
            yield self._odd_line(parent, line)
            return
        what = self.random.choice("IIUD")
        if what == "I" or line is None:
            self.below[self.made] = self._named(parent)
            yield Change("I", {}, {"id": self.made, **self._named(parent)})
        elif what == "U":
            self.below[line] = self._named(parent)
            yield Change("U", {"id": line}, {"id": line, **self._named(parent)})
        else:
            del self.below[line]
            yield Change("D", {"id": line})

    def _odd_line(self, parent: Key, line: int | None) -> Change:
        """Insert a line without a parent or one that lacks its column, or leave a line where it is under another id."""
        what, first = self.random.choice("NLK"), self.key[0]
        nobody: Row = {**self._named(parent), first: None}
        if what == "K" and line is not None:
            self.below[self.made] = self.below.pop(line)
            return Change("U", {"id": line}, {"id": self.made})
        self.below[self.made] = nobody
        if what == "N":
            return Change("I", {}, {"id": self.made, **nobody})
        for row in self.below.values():
            row[first] = None
        return Change("I", {}, {"id": self.made, **nobody}, (first,))

    def lines(self) -> dict[Key, list[int]]:
        """Return the lines of each row by its key."""
        keys_of_lines: dict[Key, list[int]] = {key: [] for key in self.rows}
        for line, parent in self.below.items():
            keys_of_lines.get(tuple(parent[name] for name in self.key), []).append(line)
        return {key: sorted(line_keys) for key, line_keys in keys_of_lines.items()}


def _stored(kind: str, value: Any) -> Any:
    """Return a value as a table gives it back."""
    from txloom.config.models.column_types import parse

    return pa.array([value], arrow_type(parse(kind)))[0].as_py()


@dataclass
class Workload:
    """Transactions of some tables, by csn, in the order in which they are released: late ones among them."""

    worlds: Mapping[str, World]
    releases: list[dict[str, Transactions]]


def workload(
    tables: Sequence[str], seed: int, transactions: int = 12, releases: int = 3, odds: Odds | None = None
) -> Workload:
    """Commit random transactions and cut them into releases; some come in a later one than their neighbours."""
    chosen, odds = random.Random(seed), odds or Odds()
    worlds = {table: World(table, random.Random(f"{table}{seed}"), odds) for table in tables}
    steps: list[dict[str, dict[int, Sequence[Change]]]] = [
        {each: {} for table in tables for each in (table, f"{table}_line")} for _ in range(releases)
    ]
    for number in range(transactions):
        turn = number * releases // transactions
        late = min(releases - 1, turn + (chosen.random() < odds.late))
        for table, world in worlds.items():
            rows, lines = world.transaction()
            steps[late][table][10 * (number + 1)] = rows
            steps[late][f"{table}_line"][10 * (number + 1)] = lines
    return Workload(worlds, [dict(each) for each in steps])
