"""The highest csn that each partition of a source has shown, by landing; a folder of files is one partition.

The table `source_partitions` has a row of when a partition was first seen, and one for each landing in which it showed
events. From it the low watermark of a landing's clock row is computed (`txloom.transactions.low_watermark`).
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
"""The SQL condition of a row that only says that a partition was first seen."""


def announce(pipeline: Pipeline, paths: TablePaths, number: int, at: datetime, partitions: Iterable[Key]) -> None:
    """Record partitions that are new, before a landing reads them: the low watermark waits for them from then on.

    A repeated call writes nothing.

    Args:
        pipeline: the declaration.
        paths: where the tables are.
        number: the landing.
        at: its time.
        partitions: all partitions that the landing reads from.
    """
    if not _is_bounded(pipeline):
        return
    counting = [key for key in dict.fromkeys(partitions) if _counts(pipeline, key[0])]
    known = _known(paths, number)
    about = {"landing": number, "at": at}
    rows = [{**about, "topic": topic, "partition": part} for topic, part in counting if (topic, part) not in known]
    if rows:
        small_tables.append(_path(paths), rows, SOURCE_PARTITIONS, once=(_write_id(paths, "plan"), number))


def advance(pipeline: Pipeline, paths: TablePaths, landing: LandingPlan) -> LowWatermark | None:
    """Record, once, the highest csn that each partition has shown in a landing, and what was unreadable there.

    Returns:
        the low watermark over all partitions of declared topics after the landing; None if no partition waits for
        another.
    """
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
    declared = {key: state for key, state in partitions.items() if _is_declared(pipeline, key[0])}
    if _is_counted(pipeline) and len(declared) < 2:
        return None
    idle = idle_after(pipeline)
    micros = None if idle is None else int(idle.total_seconds() * 1_000_000)
    decodes = landing.reads_source or landing.redecodes
    unreadable_ranges += _known_poison(paths, landing.number) if decodes and not _is_counted(pipeline) else []
    return low_watermark(
        declared.values(), at, micros, inclusive=_is_counted(pipeline), unreadable_ranges=unreadable_ranges
    )


def idle_after(pipeline: Pipeline) -> timedelta | None:
    """Return how long a partition that shows nothing is waited for; None: always."""
    completeness = pipeline.completeness
    return completeness.idle_after or (completeness.patience if _is_counted(pipeline) else None)


def _is_bounded(pipeline: Pipeline) -> bool:
    """Return whether transactions wait for a low watermark over partitions."""
    return pipeline.completeness.rule == "progress" or _is_counted(pipeline)


def _is_counted(pipeline: Pipeline) -> bool:
    """Return whether metadata counts events, and comes in partitions of Kafka; a folder of files is one partition."""
    return pipeline.completeness.rule == "counts" and pipeline.source.kafka is not None


def _counts(pipeline: Pipeline, topic: str) -> bool:
    """Return whether the low watermark is computed over a topic's partitions."""
    return topic == pipeline.source.transaction_topic if _is_counted(pipeline) else topic not in names.LOADS


def _is_declared(pipeline: Pipeline, topic: str) -> bool:
    """Return whether a topic is still declared: landings read no partitions of other topics."""
    kafka = pipeline.source.kafka
    return kafka is None or topic in (*kafka.topics, pipeline.source.transaction_topic)


def _known(paths: TablePaths, number: int) -> dict[Key, Partition]:
    """Return the state of every partition before a landing."""
    newest = f"row_number() over (partition by topic, partition order by landing desc, {SEEN}) as n"
    before = f"select *, {newest} from t where landing < {number} or landing = {number} and {SEEN}"
    rows = small_tables.query(_path(paths), f"select topic, partition, csn, at, torn from ({before}) where n = 1")
    return {
        (row["topic"], row["partition"]): Partition(row["csn"], epoch_micros(row["at"]), row["torn"]) for row in rows
    }


def _csns_of(
    pipeline: Pipeline, paths: TablePaths, number: int, known: dict[Key, Partition]
) -> Iterator[tuple[Key, list[int | None]]]:
    """Yield each partition of which a landing has events, and their csns in order of arrival, None where unreadable.

    Where neither an event of the landing nor the last one before it was unreadable, only the highest csn is yielded.
    """
    unread = f"kind = 'poison' and csn is null and cause <> '{UNKNOWN_TABLE}'"
    kinds = "'metadata'" if _is_counted(pipeline) else "'row', 'marker'"
    condition = f"kind in ({kinds}) and csn is not null"
    if not _is_counted(pipeline):
        condition += f" or {unread}"
    where = f'landing = {number} and "row" >= 0 and ({condition})'
    columns = "topic, partition, max(csn) as csn, bool_or(kind = 'poison') as unreadable"
    for row in small_tables.query(paths.change_events, f"select {columns} from t where {where} group by 1, 2"):
        key = row["topic"], row["partition"]
        if not _counts(pipeline, key[0]):
            continue
        if not row["unreadable"] and (key not in known or known[key].unreadable_since is None):
            yield key, [row["csn"]]
            continue
        partition = "null" if key[1] is None else key[1]
        of_partition = f"topic = {text_literal(key[0])} and partition is not distinct from {partition}"
        each = small_tables.query(
            paths.change_events, f'select csn from t where {where} and ({of_partition}) order by "row"'
        )
        yield key, [event["csn"] for event in each]


def _known_poison(paths: TablePaths, number: int) -> list[UnreadableRange]:
    """Return, as unreadable ranges of one csn each, the csns of poison whose transaction is known."""
    sql = f"select distinct csn from t where landing = {number} and kind = 'poison' and csn is not null"
    return [(row["csn"], row["csn"]) for row in small_tables.query(paths.change_events, sql)]


def _path(paths: TablePaths) -> str:
    return paths.table(names.SOURCE_PARTITIONS)


def _write_id(paths: TablePaths, step: str) -> str:
    return names.write_id(paths.pipeline, f"{names.SOURCE_PARTITIONS}.{step}", 0)


def as_rows(paths: TablePaths, pipeline: Pipeline | None = None) -> list[dict[str, Any]]:
    """Return topic, partition, csn, at and unreadable_since of each partition now, the lowest csn first.

    Args:
        paths: where the tables are.
        pipeline: the declaration, to return only partitions of its topics; None: of all topics ever declared.
    """
    known = _known(paths, 2**63 - 1)
    kept = {key: each for key, each in known.items() if pipeline is None or _is_declared(pipeline, key[0])}
    rows = [{"topic": key[0], "partition": key[1], **vars(each)} for key, each in kept.items()]
    return sorted(rows, key=lambda row: (row["csn"] or -1, row["topic"], row["partition"] or 0))
