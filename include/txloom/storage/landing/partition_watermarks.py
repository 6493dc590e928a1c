"""How far each partition of a source is, landing by landing; a folder of files is one partition.

The table `source_partitions` says it: a row when a partition is first seen, and one for each landing in which it showed
something. From it follows the frontier that a landing's clock carries (`txloom.transactions.low_watermark`).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from txloom.config import names
from txloom.config.models.pipeline import Pipeline
from txloom.events.rejections import UNKNOWN_TABLE
from txloom.storage.delta import small_tables
from txloom.storage.delta.sql import epoch_micros, text_literal
from txloom.storage.paths import TablePaths
from txloom.storage.sources.splits import LandingPlan
from txloom.storage.system_tables import SOURCE_PARTITIONS
from txloom.transactions.low_watermark import LowWatermark, Partition, UnreadableRange, advanced, low_watermark

Key = tuple[str, int | None]
"""Topic and number of a partition; files have no number."""
SEEN = "csn is null and torn is null"
"""Of a row that says that a partition is there, and no more."""


def announce(pipeline: Pipeline, paths: TablePaths, number: int, at: datetime, partitions: Iterable[Key]) -> None:
    """Write down, before a landing reads them, partitions that nobody knew of: from now on they are waited for."""
    if not _is_bounded(pipeline):
        return
    counting = [key for key in dict.fromkeys(partitions) if _counts(pipeline, key[0])]
    known = _known(paths, number)
    about = {"landing": number, "at": at}
    rows = [{**about, "topic": topic, "partition": part} for topic, part in counting if (topic, part) not in known]
    if rows:
        small_tables.append(_path(paths), rows, SOURCE_PARTITIONS, once=(_write_id(paths, "plan"), number))


def advance(pipeline: Pipeline, paths: TablePaths, landing: LandingPlan) -> LowWatermark | None:
    """Write down what a landing showed of each partition; return how far all are, None where none waits for another."""
    if not _is_bounded(pipeline):
        return None
    partitions, unreadable_ranges = _known(paths, landing.number), list[UnreadableRange]()
    at, rows = epoch_micros(landing.at), []
    for key, csns in _csns_of(pipeline, paths, landing.number, partitions) if landing.reads_source else ():
        partitions[key], new_ranges = advanced(partitions.get(key, Partition(None, at)), csns, at)
        unreadable_ranges += new_ranges
        shown = {"landing": landing.number, "at": landing.at, "topic": key[0], "partition": key[1]}
        rows.append({**shown, "csn": partitions[key].csn, "torn": partitions[key].unreadable_since})
    if rows:
        small_tables.append(_path(paths), rows, SOURCE_PARTITIONS, once=(_write_id(paths, "shown"), landing.number))
    if _is_counted(pipeline) and len(partitions) < 2:
        return None
    idle = idle_after(pipeline)
    micros = None if idle is None else int(idle.total_seconds() * 1_000_000)
    unreadable_ranges += (
        _known_poison(paths, landing.number) if landing.reads_source and not _is_counted(pipeline) else []
    )
    return low_watermark(
        partitions.values(), at, micros, inclusive=_is_counted(pipeline), unreadable_ranges=unreadable_ranges
    )


def idle_after(pipeline: Pipeline) -> timedelta | None:
    """Return from when on a silent partition is no longer waited for; None: it always is."""
    completeness = pipeline.completeness
    return completeness.idle_after or (completeness.patience if _is_counted(pipeline) else None)


def _is_bounded(pipeline: Pipeline) -> bool:
    return pipeline.completeness.rule == "progress" or _is_counted(pipeline)


def _is_counted(pipeline: Pipeline) -> bool:
    """Tell whether metadata counts events, and comes over partitions; a folder of files is but one."""
    return pipeline.completeness.rule == "counts" and pipeline.source.kafka is not None


def _counts(pipeline: Pipeline, topic: str) -> bool:
    """Tell whether a topic's partitions bound what is known of transactions."""
    return topic == pipeline.source.transaction_topic if _is_counted(pipeline) else topic not in names.LOADS


def _known(paths: TablePaths, number: int) -> dict[Key, Partition]:
    """Return every partition as it was before a landing took anything."""
    newest = f"row_number() over (partition by topic, partition order by landing desc, {SEEN}) as n"
    before = f"select *, {newest} from t where landing < {number} or landing = {number} and {SEEN}"
    rows = small_tables.query(_path(paths), f"select topic, partition, csn, at, torn from ({before}) where n = 1")
    return {
        (row["topic"], row["partition"]): Partition(row["csn"], epoch_micros(row["at"]), row["torn"]) for row in rows
    }


def _csns_of(
    pipeline: Pipeline, paths: TablePaths, number: int, known: dict[Key, Partition]
) -> Iterator[tuple[Key, list[int | None]]]:
    """Yield, of each partition that a landing has something of, the ids that it showed.

    Only their highest, unless something there, or the last thing before, could not be read.
    """
    unread = f"kind = 'poison' and csn is null and cause <> '{UNKNOWN_TABLE}'"
    kinds = "'metadata'" if _is_counted(pipeline) else "'row', 'marker'"
    condition = f"kind in ({kinds}) and csn is not null"
    if not _is_counted(pipeline):
        condition += f" or {unread}"
    where = f'landing = {number} and "row" >= 0 and ({condition})'
    sql = (
        f"select topic, partition, max(csn) as csn, bool_or(kind = 'poison') as torn from t where {where} group by 1, 2"
    )
    for row in small_tables.query(paths.change_events, sql):
        key = row["topic"], row["partition"]
        if not _counts(pipeline, key[0]):
            continue
        if not row["torn"] and (key not in known or known[key].unreadable_since is None):
            yield key, [row["csn"]]
            continue
        partition = "null" if key[1] is None else key[1]
        of_partition = f"topic = {text_literal(key[0])} and partition is not distinct from {partition}"
        each = small_tables.query(
            paths.change_events, f'select csn from t where {where} and ({of_partition}) order by "row"'
        )
        yield key, [event["csn"] for event in each]


def _known_poison(paths: TablePaths, number: int) -> list[UnreadableRange]:
    """Return the ids of events of a landing that could not be read, but for the id of their transaction."""
    sql = f"select distinct csn from t where landing = {number} and kind = 'poison' and csn is not null"
    return [(row["csn"], row["csn"]) for row in small_tables.query(paths.change_events, sql)]


def _path(paths: TablePaths) -> str:
    return paths.table(names.SOURCE_PARTITIONS)


def _write_id(paths: TablePaths, step: str) -> str:
    return names.write_id(paths.pipeline, f"{names.SOURCE_PARTITIONS}.{step}", 0)


def as_rows(paths: TablePaths) -> list[dict[str, Any]]:
    """Return how far each partition is now, the one that is furthest behind first."""
    known = _known(paths, 2**63 - 1)
    rows = [{"topic": key[0], "partition": key[1], **vars(each)} for key, each in known.items()]
    return sorted(rows, key=lambda row: (row["csn"] or -1, row["topic"], row["partition"] or 0))
