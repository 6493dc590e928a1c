"""What a workload is made of: each dimension is drawn by itself, so that in the long run all meet.

A dimension whose fault is known and not mended yet stands in `OFF` with the reason; TXLOOM_DIMENSIONS=all draws it too.
"""

import os
from dataclasses import dataclass, replace
from random import Random

GOLDENGATE = "goldengate"
DEBEZIUM = ("debezium/postgresql", "debezium/mysql", "debezium/oracle", "debezium/sqlserver")
WAL2JSON = ("wal2json", "wal2json/1")
CHANGE_SETS = "change_sets"
ALONE = ("change_events", CHANGE_SETS)
EXTRACTS = "snapshots"
SOURCES = (GOLDENGATE, *DEBEZIUM, *WAL2JSON, *ALONE, EXTRACTS)
FILES = ("parts", "numbered", "growing", "rotated", "overtaken")
"""How a producer writes files: one a landing, several a landing whose numbers have no zeros in front, one that grows,
one that grows until the next one begins, one a landing of which some are still written while later ones are whole."""
FORMS = ("jsonl", "csv", "parquet")
"""What the rows of change sets stand in, where each landing finds files of its own."""
SNAPSHOTS = ("none", "whole", "anew", "changed")
"""What a connector sends before its stream: nothing, all tables, or a part of them and then all again, unchanged or
changed meanwhile."""
TELL_SNAPSHOTS = ("debezium/postgresql", "debezium/mysql")
"""Connectors whose rows tell a snapshot that begins the stream anew from one of some rows."""
OPERATIONS = (
    *("backfill", "load", "rebuild", "optimize", "vacuum", "redrive", "dismiss", "clean", "die", "remember"),
    "forget",
)
"""What happens between two runs; cleaning leaves of history what is shown alone; the buffer dies in its next run; old
messages are forgotten."""
REMEMBERED = (1, 3, 50_000)
OFF: dict[str, str] = {}
"""By dimension, dimension=value, or two of them joined by ` with `: why it is not drawn, or not together."""


@dataclass(frozen=True)
class Dimensions:
    """What a workload is made of.

    wide_keys, wide_values: types of every kind, at their edges. keyless: some tables have no key. twins: the names of
    two source tables differ in case alone. far: commit positions begin beyond 2^53. copies: rows of one statement
    share their place in the log, those of a whole transaction in MySQL's, where it is compressed. files: see FILES.
    form: see FORMS. touched: old files get a new time. cut: files end in mid-line. snapshot: see SNAPSHOTS.
    taken_again: the connector loses its place in the midst of its stream, and takes its snapshot again. junk:
    messages that are none lie between. remembered: finished transactions that a bucket of the buffer knows.
    operations: see OPERATIONS. in_order: metadata keeps commit order.
    wraps: transaction ids begin anew, once everything before has come. impatient: what is not whole with its landing is
    given up, and released once the rest has come. forged: rows come after their transaction was released, and dead
    letters take them.
    below: a table hangs below a child of the aggregate, as in an aggregate of its own. serials: some keys have a column
    that identifies a row by itself. switches: extracts change from full to partial, and back. renames: the topic of
    metadata, or the fields of change sets, get other names. partitioned: current tables have partitions, by a column of
    their key. These five are drawn where a declaration is edited (`edited`).
    """

    source: str = GOLDENGATE
    wide_keys: bool = False
    wide_values: bool = False
    keyless: bool = False
    twins: bool = False
    far: bool = False
    copies: bool = False
    files: str = "parts"
    form: str = "jsonl"
    touched: bool = False
    cut: bool = False
    snapshot: str = "none"
    taken_again: bool = False
    junk: bool = False
    remembered: int = 50_000
    operations: frozenset[str] = frozenset()
    in_order: bool = True
    wraps: bool = False
    impatient: bool = False
    forged: bool = False
    below: bool = False
    serials: bool = False
    switches: bool = False
    renames: bool = False
    partitioned: bool = False

    @property
    def family(self) -> str:
        """Return the source's format as a declaration names it."""
        return self.source.split("/")[0]

    @property
    def is_ordered(self) -> bool:
        """Tell whether messages mean something only in their order."""
        return self.family == "wal2json"

    @property
    def is_alone(self) -> bool:
        """Tell whether each change stands alone, so that a commit is whole only where all of it is landed at once."""
        return self.source in ALONE


PLAIN = Dimensions()


def drawn(chance: Random, source: str | None = None) -> Dimensions:
    """Draw a workload's dimensions; source: of this one."""
    source = source or chance.choice(SOURCES)
    family = source.split("/")[0]
    is_stream, is_alone = family != "wal2json" and source not in ALONE, source in ALONE
    files = chance.choice(FILES)
    made = Dimensions(
        source=source,
        wide_keys=chance.random() < 0.5,
        wide_values=chance.random() < 0.5,
        keyless=chance.random() < 0.5,
        twins=chance.random() < 0.15 and source in ("wal2json", "wal2json/1", "debezium/postgresql"),
        far=chance.random() < 0.3,
        copies=chance.random() < 0.3 and source in ("wal2json", "debezium/postgresql", "debezium/mysql"),
        files=files,
        touched=chance.random() < 0.3,
        cut=chance.random() < 0.5 and files in ("growing", "rotated", "overtaken") and not is_alone,
        snapshot=chance.choice(SNAPSHOTS if family == "debezium" else SNAPSHOTS[:1]),
        junk=chance.random() < 0.3,
        remembered=chance.choice(REMEMBERED),
        operations=frozenset(each for each in OPERATIONS if chance.random() < 0.2),
        in_order=not is_stream or chance.random() < 0.8,
    )
    if family in (GOLDENGATE, "debezium"):
        made = replace(made, impatient=chance.random() < 0.2)
    if source == GOLDENGATE:
        made = replace(made, forged=chance.random() < 0.4)
    if made.forged and chance.random() < 0.7:
        made = replace(made, operations=made.operations | {"forget", "backfill"})
    if made.impatient:
        made = replace(made, operations=made.operations - {"clean"})
    if source in TELL_SNAPSHOTS:
        made = replace(made, taken_again=chance.random() < 0.4)
    if source == "debezium/postgresql":
        made = replace(made, wraps=chance.random() < 0.3 and not made.cut)
    if source == "change_sets" and files == "parts":
        made = replace(made, form=chance.choice(FORMS))
    if made.form != "jsonl":
        made = replace(made, junk=False)
    if source == EXTRACTS:
        made = replace(made, keyless=False, far=False, files="parts", touched=False, cut=False, junk=False)
    return made if os.environ.get("TXLOOM_DIMENSIONS") == "all" else without_faults(made)


def edited(seed: int, source: str) -> Dimensions:
    """Draw the dimensions of a workload whose declaration is edited."""
    chance = Random(f"{seed} edited")
    made = drawn(chance, source)
    operations = {each for each in OPERATIONS if chance.random() < 0.25}
    operations -= {"clean", "dismiss"} if made.impatient else set()
    below, serials = chance.random() < 0.4, chance.random() < 0.4
    switches = source == EXTRACTS and chance.random() < 0.5
    is_renamed = made.family in (GOLDENGATE, "debezium", "change_sets") and not made.cut
    renames = is_renamed and chance.random() < 0.4
    operations = frozenset(operations)
    made = replace(made, forged=False, partitioned=chance.random() < 0.4)
    return replace(made, operations=operations, below=below, serials=serials, switches=switches, renames=renames)


def without_faults(made: Dimensions) -> Dimensions:
    """Return dimensions without those that are off."""
    for name in OFF:
        parts = name.split(" with ")
        if all(_is_drawn(made, part) for part in parts):
            made = _without(made, parts[-1])
    return made


def _is_drawn(made: Dimensions, part: str) -> bool:
    name, _, value = part.partition("=")
    drawn_value = getattr(made, name)
    if isinstance(drawn_value, frozenset):
        return value in drawn_value
    return str(drawn_value) == value if value else drawn_value != getattr(Dimensions(), name)


def _without(made: Dimensions, part: str) -> Dimensions:
    name, _, value = part.partition("=")
    drawn_value = getattr(made, name)
    plain = drawn_value - {value} if isinstance(drawn_value, frozenset) else getattr(Dimensions(), name)
    return replace(made, **{name: plain})
