"""Plans of landings: the input splits of a landing are recorded before any of them is read."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any

from txloom.config import names
from txloom.config.contents import Content, digest_of, names_content, reading_content, to_json, watched_content
from txloom.config.models.pipeline import Pipeline
from txloom.config.models.source import ChangeSets
from txloom.storage.delta import small_tables
from txloom.storage.delta.read_session import exists
from txloom.storage.paths import TablePaths
from txloom.storage.sources import file_positions
from txloom.storage.sources.file_positions import Name, Position
from txloom.storage.sources.splits import LandingPlan, Range, Task
from txloom.storage.system_tables import LANDED_FILES

NO_FILE = -1
"""The number of a plan's row that is no file."""
FORMER = "former"
"""The key of a reading that has the former names, newest first."""
REDECODED = f"{names.SYSTEM_PREFIX}redecoded"
"""The topic under which landings are planned that decode undecided transactions again, by a changed declaration.

Their plan has how messages are decoded from then on (`contents.watched_content`) as `origin`, as JSON. So has the plan
of the first landing, in a row of its own.
"""


def watched_row(pipeline: Pipeline) -> dict[str, Any]:
    """Return the columns of a plan's row that say how messages are decoded from its landing on."""
    origin = to_json(watched_content(pipeline))
    return {"file_number": NO_FILE, "topic": REDECODED, "origin": origin, **_how(pipeline)}


def _how(pipeline: Pipeline) -> dict[str, Any]:
    """Return the columns that say how messages are decoded, of each row of a plan that records it.

    pipeline: the declaration `with_former`.
    """
    former = [names_content(each) for each in pipeline.source.former]
    reading = to_json(reading_content(pipeline) | {FORMER: former})
    return {"watched": digest_of(watched_content(pipeline)), "reading": reading}


def watched_rows(pipeline: Pipeline, about: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the columns that every row of a landing's plan has, and its rows in addition to those of its input.

    Both say how the messages of the landing are decoded. Only the first landing has an additional row.

    Args:
        pipeline: the declaration.
        about: the columns of the landing and its run.
    """
    base = {**about, **_how(pipeline)}
    return base, [{**base, **watched_row(pipeline)}] if about["landing"] == 1 else []


def is_redecoding(plan: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a landing only decodes undecided transactions again; plan: its rows."""
    return all(row["topic"] == REDECODED for row in plan)


def last_watched(paths: TablePaths) -> str | None:
    """Return the digest of the declaration by which the newest messages were decoded; None where it was not kept."""
    newest_row = "select watched from t where watched is not null order by landing desc limit 1"
    rows = small_tables.query(paths.landed_files, newest_row)
    return rows[0]["watched"] if rows else None


def last_reading(paths: TablePaths, plan: Sequence[Mapping[str, Any]] = ()) -> Content | None:
    """Return how the newest messages are read (`contents.reading_content`); None if it was not recorded.

    FORMER has the names by which earlier messages are read (`contents.names_content`), newest first.

    Args:
        paths: where the tables are.
        plan: the rows of the plan of the newest landing, where they are known.
    """
    known = next((row["reading"] for row in plan if row["reading"] is not None), None)
    if known is None and exists(paths.landed_files) and "reading" in small_tables.schema_of(paths.landed_files).names:
        sql = "select reading from t where reading is not null order by landing desc limit 1"
        known = next((row["reading"] for row in small_tables.query(paths.landed_files, sql)), None)
    return None if known is None else json.loads(known)


def is_read_so(pipeline: Pipeline, reading: Content | None) -> bool:
    """Return whether a declaration reads messages as `last_reading` says; True if this was not recorded."""
    if reading is None:
        return True
    return {name: value for name, value in reading.items() if name != FORMER} == reading_content(pipeline)


def with_former(pipeline: Pipeline, reading: Content | None) -> Pipeline:
    """Return a pipeline whose source knows its former names of topics and fields, for messages that were landed.

    Args:
        pipeline: the declaration.
        reading: how the newest messages are read, as `last_reading` returns it.
    """
    if reading is None:
        return pipeline
    now = names_content(pipeline.source)
    last = {name: reading[name] for name in now if name in reading}
    known = [each for each in (last, *reading[FORMER]) if each.keys() == now.keys() and each != now]
    former = [
        pipeline.source.model_copy(
            update=each | ({"change_sets": ChangeSets(**each["change_sets"])} if "change_sets" in each else {})
        )
        for number, each in enumerate(known)
        if each not in known[:number]
    ]
    return pipeline.model_copy(update={"source": pipeline.source.with_former(former)}) if former else pipeline


def as_landed(pipeline: Pipeline, paths: TablePaths) -> Pipeline:
    """Return a pipeline `with_former` names, as the newest landing recorded them."""
    return with_former(pipeline, last_reading(paths))


def decoded(paths: TablePaths) -> list[tuple[int, Content]]:
    """Return, in order, each landing from which on messages were decoded by another declaration, and how."""
    sql = f"select landing, origin from t where topic = '{REDECODED}' order by landing"
    rows = small_tables.query(paths.landed_files, sql)
    return [(row["landing"], json.loads(row["origin"])) for row in rows]


def decoded_since(paths: TablePaths, following: Content | None = None) -> tuple[int, dict[str, int]]:
    """Return the newest landing that decoded messages again, and by table the first that decoded it as it is now.

    0: the landing was none, or messages of the table were always decoded so.

    Args:
        paths: where the tables are.
        following: how the next landing decodes (`contents.watched_content`); None: as the last one.
    """
    border, since, before = 0, dict[str, int](), None
    landings = decoded(paths)
    if following is not None and landings and landings[-1][1] != following:
        landings.append((newest(paths) + 1, following))
    for landing, content in landings:
        if before is not None:
            border = landing
            since |= {table: landing for table, how in content.items() if before.get(table) != how}
        before = content
    return border, since


def last_planned(paths: TablePaths) -> list[dict[str, Any]]:
    """Return the rows of the newest landing in `landed_files`, by file number; [] before there was one.

    Columns that an older version of txloom did not write are None.
    """
    sql = f"select * from t where landing = {newest(paths)} order by file_number"
    rows = small_tables.query(paths.landed_files, sql)
    return [{name: row.get(name) for name in LANDED_FILES.names} for row in rows]


def without_position(paths: TablePaths) -> set[tuple[str, int, int]]:
    """Return name, size and modification of the files that were taken before positions were kept."""
    first = file_positions.first_landing(paths)
    where = "file is not null" if first is None else f"file is not null and landing < {first}"
    rows = small_tables.query(paths.landed_files, f"select file, size, modified from t where {where}")
    return {(row["file"], row["size"], row["modified"]) for row in rows}


def newest(paths: TablePaths) -> int:
    """Return the number of the newest landing in `landed_files`; 0 before there was one."""
    rows = small_tables.query(paths.landed_files, "select max(landing) as n from t")
    return int((rows[0]["n"] if rows else 0) or 0)


def write_plan(paths: TablePaths, number: int, rows: Sequence[dict[str, Any]]) -> None:
    """Record the plan of a landing; where the landing has one already nothing is written.

    A planned landing is finished by this run, or by the next one.
    """
    write_id = names.write_id(paths.pipeline, names.LANDED_FILES, 0)
    small_tables.append(paths.landed_files, rows, LANDED_FILES, once=(write_id, number))


def write_topics(
    paths: TablePaths,
    landing: LandingPlan,
    run_id: str,
    topics: Iterable[str] | Mapping[str, str],
    pipeline: Pipeline | None = None,
) -> None:
    """Record the plan of a landing whose rows txloom writes itself; once planned it is written, or stays empty.

    Args:
        paths: where the tables are.
        landing: the landing.
        run_id: the run that writes it.
        topics: the topics under which its rows are planned; a mapping also has the `origin` of each topic's row.
        pipeline: the declaration by which its rows were decoded; None: the plan does not record it.
    """
    about = {"landing": landing.number, "run_id": run_id, "at": landing.at}
    base, rows = (about, []) if pipeline is None else watched_rows(pipeline, about)
    said = topics if isinstance(topics, Mapping) else dict.fromkeys(topics)
    planned = ({**base, "file_number": 0, "topic": topic, "origin": origin} for topic, origin in said.items())
    write_plan(paths, landing.number, [*planned, *rows])


def landing_of(paths: TablePaths, rows: Sequence[dict[str, Any]], parts: Sequence[Range] = ()) -> LandingPlan:
    """Return a landing by its plan.

    Args:
        paths: where the tables are.
        rows: its rows, as `last_planned` returns them.
        parts: the ranges of records that it takes from Kafka.
    """
    number = rows[0]["landing"]
    files = [row for row in rows if row["file"] is not None]
    origins = {row["origin"] for row in files} - {None}
    before = file_positions.newest(paths, origins, number)
    splits = [*(_task(row, before) for row in files), *tasks_of(parts)]
    at = rows[0]["at"].astimezone(UTC)
    return LandingPlan(number, at, tuple(splits), followed(paths, splits, number), reads_source=True)


def followed(paths: TablePaths, splits: Sequence[Task], number: int) -> dict[Name, Position]:
    """Return how far the files that files of a landing follow were read before it, where that is known."""
    behind = {split.follows for split in splits if split.follows is not None}
    return file_positions.newest(paths, behind, number)


def planned_file(task: Task) -> dict[str, Any]:
    """Return the columns of a plan's row that describe an input split of a file."""
    origin = None if task.origin is None else task.origin.file
    file_columns = {name: getattr(task, name) for name in ("topic", "file", "size", "modified", "start", "follows")}
    return {"file_number": task.number, **file_columns, "origin": origin}


def _task(row: Mapping[str, Any], before: Mapping[Name, Position]) -> Task:
    """Return the input split of a plan's row; before: how far files were read when it was planned."""
    file_columns = {name: row[name] for name in ("topic", "file", "size", "modified", "follows")}
    origin = before.get((row["topic"], row["origin"] or ""))
    return Task(row["file_number"], **file_columns, start=row["start"] or 0, origin=origin)


def tasks_of(parts: Sequence[Range]) -> list[Task]:
    """Return the input splits of ranges of records, numbered from 1."""
    return [Task(number, part.topic, "", 0, part) for number, part in enumerate(parts, 1)]
