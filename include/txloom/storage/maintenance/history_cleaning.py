"""Remove superseded rows from a history: at once, or in pieces by ranges of its key where it is large.

One commit removes the rows; it carries the csn up to which the history is cleaned as Delta's txnVersion: a reader who
requests an earlier state gets an error, and a run that died before or after the commit is repeated.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txloom.current.folding.components import components
from txloom.current.folding.value_sources import Images
from txloom.current.superseded import COLUMNS, superseded
from txloom.storage.delta import arrow_tables
from txloom.storage.delta.data_files import DataFile
from txloom.storage.delta.fencing import FENCE
from txloom.storage.delta.retry import repeated
from txloom.storage.paths import TablePaths
from txloom.storage.publishing.watermark import Watermark
from txloom.storage.rewriting import pieces
from txloom.storage.rewriting.changed_keys import ChangedKeys
from txloom.storage.rewriting.matching import is_among
from txloom.storage.rewriting.pieces import PieceFiles
from txloom.storage.rewriting.rewrite import FILE_BYTES, Rewrite
from txloom.storage.rewriting.table_files import TableFile
from txloom.storage.rewriting.taken_out import shares
from txloom.storage.spark import tasks
from txloom.storage.targets import history_reader
from txloom.storage.targets.row_tables import RowTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Session = Callable[[], SparkSession]

EVENT = ("_txloom_csn", "_txloom_landing", "_txloom_row")
"""The columns that identify a row of a history: its transaction, and where its event was landed."""
SAMPLE = 100_000
"""Rows by which a history is cut into pieces."""
TASK_BYTES = pieces.AT_ONCE_BYTES
"""Bytes of rows, or of files, from which on tasks work on the pieces."""


def rows(paths: TablePaths, row_table: RowTable) -> int:
    """Count the rows of a mirror's history."""
    counted = arrow_tables.select(paths.table(row_table.history), "select count(*) as n from t").to_pylist()
    return int(counted[0]["n"]) if counted else 0


@dataclass(frozen=True)
class Cleaning:
    """The cleaning of a mirror's history.

    Args:
        paths: the tables of the pipeline.
        row_table: the table.
        upto: the watermark up to which superseded rows are removed.
    """

    paths: TablePaths
    row_table: RowTable
    upto: Watermark

    def clean(self, session: "Session") -> int:
        """Remove superseded rows; return how many. session: opens a Spark session, where the history is large."""
        removed = self._superseded(session)
        if removed.num_rows:
            repeated(lambda: _remove(session, self._path, removed, self.upto.valid_through))
        return removed.num_rows

    @property
    def _path(self) -> str:
        return self.paths.table(self.row_table.history)

    @cached_property
    def _schema(self) -> pa.Schema:
        """What the rule reads."""
        schema = arrow_tables.plain_schema(arrow_tables.schema_of(FENCE.opened(self._path)))
        read = dict.fromkeys([*self.row_table.key, *(f"_txloom_{name}" for name in COLUMNS), *EVENT])
        return pa.schema([schema.field(name) for name in read])

    def _parts(self) -> Iterator[pa.Table]:
        return pieces.gathered(arrow_tables.parts_of(self._path, self._schema))

    def _superseded(self, session: "Session") -> pa.Table:
        """Return the superseded rows of the history, in the columns EVENT."""
        held, size, count = [self._schema.empty_table()], 0, 0
        for part in self._parts():
            held.append(part)
            size, count = size + part.nbytes, count + part.num_rows
            if size > pieces.AT_ONCE_BYTES:
                held.clear()
                return self._superseded_in_pieces(session, size // count)
        return superseded_of(pa.concat_tables(held), self.row_table.key, self.upto)

    def _superseded_in_pieces(self, session: "Session", row_bytes: int) -> pa.Table:
        """Return the same, piece by piece: all changes of a key lie in one, and truncates in each."""
        tasks.prepare(superseded_in)
        key = self.row_table.key
        sample, count = pieces.sampled((self._keys(part) for part in self._parts()), SAMPLE)
        by_tasks = count * row_bytes > TASK_BYTES
        together = {name: components(history_reader.edges_of(self._parts(), name)) for name in key}
        cuts = pieces.cuts_of(sample, pieces.number_for(count * row_bytes, by_tasks=by_tasks), together)
        truncates = [self._schema.empty_table()]
        with ExitStack() as stack:
            files = stack.enter_context(PieceFiles(stack.enter_context(pieces.folder(self._path))))
            for part in self._parts():
                is_truncate = pc.equal(part.column("_txloom_op"), pa.scalar("T"))
                truncates.append(part.filter(is_truncate))
                of_keys = part.filter(pc.invert(is_truncate))
                files.write(of_keys, cuts.piece_of(self._keys(of_keys).column(cuts.column)))
            some = [file for file in files.closed(cuts.pieces) if file]
            work = superseded_in(pa.concat_tables(truncates), key, self.upto)
            removed = tasks.in_tasks(session, some, work) if by_tasks else [*work(some)]
        return pa.concat_tables([superseded_of(self._schema.empty_table(), key, self.upto), *removed])

    def _keys(self, changes: pa.Table) -> pa.Table:
        """Return the keys that rows have after changes; of a delete, the one that it had."""
        key = self.row_table.key
        nothing = pa.schema([self._schema.field(name) for name in key]).empty_table()
        images = Images.of(nothing, changes, key, key)
        return pa.Table.from_arrays([images.after(name) for name in key], names=list(key))


def superseded_of(changes: pa.Table, key: Sequence[str], upto: Watermark) -> pa.Table:
    """Return the changes that are superseded, in the columns EVENT; changes: with all others of their keys."""
    is_superseded = superseded(changes, key=key, horizon=upto.valid_through, release=upto.release)
    return changes.filter(is_superseded).select(list(EVENT))


def superseded_in(
    truncates: pa.Table, key: Sequence[str], upto: Watermark
) -> "Callable[[Iterable[str]], Iterator[pa.Table]]":
    """Return what a task does: yield the superseded rows of pieces, which are files.

    Args:
        truncates: those of the table.
        key: its key.
        upto: the watermark up to which rows may be removed.
    """

    def find(some: Iterable[str]) -> Iterator[pa.Table]:
        for file in some:
            changes = pa.concat_tables([pieces.read(file, truncates.schema), truncates])
            yield superseded_of(changes, key, upto).combine_chunks()

    return find


def _remove(session: "Session", path: str, removed: pa.Table, csn: int) -> None:
    """Remove rows from a history in one commit; csn: the one that it carries.

    Raises:
        LeaseTaken: another run holds the lease.
        CommitFailedError: another commit came meanwhile.
    """
    once = (history_reader.CLEANED, csn)
    rewrite = Rewrite.of(path, EVENT)
    likely = rewrite.likely(ChangedKeys.of(removed.select([EVENT[0]])))
    ordered = removed.sort_by(EVENT[0])
    some = [(share, _within(ordered, share)) for share in shares(likely) if share]
    work = written_without(path)
    by_tasks = sum(file.size for file in likely) > TASK_BYTES
    for replaced, written in tasks.in_tasks(session, some, work) if by_tasks else work(some):
        if not all(file.can_be_removed for file in replaced):
            _mark_removed(session(), path, removed, once)
            return
        rewrite.remove(replaced)
        rewrite.adopt(written)
    rewrite.commit(None, once=once)


def _within(removed: pa.Table, files: Sequence[TableFile]) -> pa.Table:
    """Return those of some rows, in order of their csn, that may be in files."""
    bounds = [file.bounds.get(EVENT[0]) for file in files]
    known = [each for each in bounds if each is not None]
    if len(known) < len(bounds):
        return removed
    csns = removed.column(EVENT[0]).to_numpy()
    first = np.searchsorted(csns, min(low for low, _ in known))
    last = np.searchsorted(csns, max(high for _, high in known), "right")
    return removed.slice(int(first), int(last - first)).combine_chunks()


def written_without(
    path: str,
) -> "Callable[[Iterable[tuple[Sequence[TableFile], pa.Table]]], Iterator[tuple[list[TableFile], list[DataFile]]]]":
    """Return what a task does: write anew what files of a table hold beside some rows.

    It yields the files that hold some of these rows, and those that it wrote in their place; none in the place of one
    that delta-rs cannot remove.
    """

    def write(
        some: Iterable[tuple[Sequence[TableFile], pa.Table]],
    ) -> Iterator[tuple[list[TableFile], list[DataFile]]]:
        for share, removed in some:
            rewrite = Rewrite.of(path, EVENT)
            holding = [file for file in share if is_among(rewrite.files.read(file, EVENT), removed, EVENT).true_count]
            for file in (file for file in holding if file.can_be_removed):
                left = (part.filter(pc.invert(is_among(part, removed, EVENT))) for part in rewrite.files.parts(file))
                for rows_left in arrow_tables.gathered(left, FILE_BYTES, lambda part: part.nbytes):
                    rewrite.add(rows_left, ordered=True)
            yield holding, rewrite.added

    return write


def _mark_removed(spark: "SparkSession", path: str, removed: pa.Table, once: tuple[str, int]) -> None:
    """Remove rows with Spark, which can name files of which rows are marked as removed already."""
    from delta.tables import DeltaTable

    from txloom.storage.delta import spark_tables

    same = " AND ".join(f"t.{name} = s.{name}" for name in EVENT)
    FENCE.refuse_stale(path)
    # The write id is a setting of a session, and small histories are cleaned at the same time.
    session = spark_tables.cloned_session(spark)
    for setting, value in zip(spark_tables.FENCED, (once[0], str(once[1])), strict=True):
        session.conf.set(setting, value)
    source = spark_tables.frame_of(session, removed).alias("s")
    DeltaTable.forPath(session, path).alias("t").merge(source, same).whenMatchedDelete().execute()
