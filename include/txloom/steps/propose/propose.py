"""Propose a declaration: tables from a database or a sample, the source as the user says where it is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from txloom.config.models.fields import SOURCE_TABLE
from txloom.errors import ConfigurationError
from txloom.steps.propose import database_tables, extract_tables, stream_tables
from txloom.steps.propose.proposal import Proposal, text
from txloom.steps.propose.samples import Sample, sample
from txloom.steps.propose.table_choice import chosen
from txloom.storage.databases import mysql_catalog, postgresql_catalog
from txloom.storage.databases.database_catalog import Catalog, CatalogTable

FORMATS = ("debezium", "wal2json", "goldengate", "snapshots")
TABLES_OF = {
    "debezium": stream_tables.debezium_tables,
    "wal2json": stream_tables.wal2json_tables,
    "goldengate": stream_tables.goldengate_tables,
}
DATABASES = ("postgresql", "mysql", "mariadb", "oracle", "sqlserver")
PATIENCE = "30m"


@dataclass(frozen=True)
class Request:
    """What the user knows.

    Args:
        name: of the pipeline.
        format: of the source; None: that of the sample.
        files: the folder with its messages or extracts.
        brokers: of Kafka, instead of files.
        prefix: of Debezium's topics.
        database: libpq's address of a PostgreSQL database, or the URI of a MySQL or MariaDB server.
        schemas: of that database; empty: all.
        tables: names of tables; empty: all.
        connection: the Airflow connection of that database, for audits.
    """

    name: str
    format: str | None = None
    files: Path | None = None
    brokers: str | None = None
    prefix: str | None = None
    database: str | None = None
    schemas: Sequence[str] = ()
    tables: Sequence[str] = ()
    connection: str | None = None


def propose(request: Request) -> Proposal:
    """Return a proposed declaration.

    Raises:
        ConfigurationError: what is asked for contradicts itself, or there is nothing to propose from.
        SourceUnavailable: the database does not answer.
    """
    if request.files is None and request.database is None:
        raise ConfigurationError("init from what? Give --database, or --files with messages or extracts.")
    if request.format not in (None, *FORMATS):
        raise _unknown(request.format)
    taken = _sample(request)
    format_ = request.format or ("snapshots" if taken is None and request.database is None else None)
    format_ = format_ or (taken.format() if taken is not None else None)
    if format_ is None:
        raise _unknown("nothing")
    catalog = None if request.database is None else _catalog(request.database, request.schemas)
    some = [] if catalog is None else chosen(catalog.tables, attrgetter("name"), request.tables, "the database")
    source = _source(request, format_, taken, catalog, [each.name for each in some])
    made = Proposal(request.name, source, _completeness(format_), [])
    made = replace(made, open_questions=list(_open_questions(request, format_, taken)), audit=request.connection or "")
    if catalog is not None:
        return _from_database(made, catalog, some, format_)
    if taken is not None:
        tables, unknown = TABLES_OF[format_](taken), list[str]()
    else:
        assert request.files is not None
        tables, unknown = extract_tables.extract_tables(request.files)
    made = replace(made, open_questions=[*made.open_questions, *unknown])
    return _complete(replace(made, tables=chosen(tables, attrgetter("source"), request.tables, "the sample")))


def _unknown(format_: str | None) -> ConfigurationError:
    known = f"expected one of {', '.join(FORMATS)}"
    return ConfigurationError(f"--format: found {format_}, {known}: how are its changes captured?")


def _complete(made: Proposal) -> Proposal:
    """Return a proposal without the tables whose names cannot be declared, which are said."""
    odd = [table.source for table in made.tables if not re.fullmatch(SOURCE_TABLE, table.source)]
    unnamed = [f"how {name!r} is captured: a table of that name cannot be declared, and is left out." for name in odd]
    tables = [table for table in made.tables if table.source not in odd]
    keys = [each for each in made.foreign_keys if not {each.child, each.parent} & set(odd)]
    made = replace(made, tables=tables, foreign_keys=keys, open_questions=[*made.open_questions, *unnamed])
    if not made.tables:
        raise ConfigurationError("found no table, expected at least one: nothing of it is in the sample.")
    return made


def _sample(request: Request) -> Sample | None:
    """Return a sample of the messages; None where there are none, or the folder holds extracts."""
    if request.files is None or request.format == "snapshots":
        return None
    if extract_tables.newest_date(request.files) is not None:
        return None
    if request.database is not None and not (request.files.is_dir() and any(request.files.iterdir())):
        return None
    return sample(request.files)


def _from_database(made: Proposal, catalog: Catalog, chosen: Sequence[CatalogTable], format_: str) -> Proposal:
    types = database_tables.types_of(catalog)
    keys = list(database_tables.foreign_keys(chosen, types))
    open_questions = [*made.open_questions, *(catalog.problems if format_ != "snapshots" else ())]
    tables = database_tables.tables_of(chosen, types)
    return _complete(replace(made, tables=tables, foreign_keys=keys, open_questions=open_questions))


def _catalog(address: str, schemas: Sequence[str]) -> Catalog:
    is_mysql = address.partition("://")[0].lower() in mysql_catalog.SCHEMES
    return (
        mysql_catalog.read_catalog(address, schemas) if is_mysql else postgresql_catalog.read_catalog(address, schemas)
    )


def _source(
    request: Request, format_: str, taken: Sample | None, catalog: Catalog | None, names: Sequence[str]
) -> list[str]:
    """Return the lines below `source:`; names: of the tables of a database."""
    lines = [f"format: {format_}"]
    if request.brokers is not None:
        lines += ["kafka:", f"  brokers: {text(request.brokers)}", f"  topics: [{', '.join(_topics(request, names))}]"]
    else:
        path = "/inbox" if request.files is None else str(request.files.resolve())
        layout = ", layout: records" if taken is not None and taken.has_records else ""
        lines += [f"files: {{path: {text(path)}{layout}}}"]
    if format_ == "snapshots":
        lines += ["snapshots: {extracts: full}     # or partial: a row that an extract does not have stays as it is"]
    if format_ == "debezium" and (database := catalog.database if catalog else _connector(taken)):
        lines += [f"debezium: {{database: {database}}}   # with time_precision_mode, where the connector sets it"]
    if (topic := _transaction_topic(request, format_, taken)) is not None:
        lines += [f"transaction_topic: {text(topic)}"]
    return lines


def _connector(taken: Sample | None) -> str:
    """Return the source database that Debezium's messages name; empty where none is known."""
    for messages in (taken.topics if taken is not None else {}).values():
        for message in messages:
            body = message.get("payload", message)
            about = body.get("source") if isinstance(body, dict) else None
            if isinstance(about, dict) and about.get("connector") in DATABASES:
                return str(about["connector"])
    return ""


def _topics(request: Request, names: Sequence[str]) -> list[str]:
    if request.prefix is None or not request.database:
        return [text(f"{request.prefix or 'PREFIX'}.SCHEMA.TABLE")]
    return [text(f"{request.prefix}.{name}") for name in names if re.fullmatch(SOURCE_TABLE, name)]


def _transaction_topic(request: Request, format_: str, taken: Sample | None) -> str | None:
    """Return the topic of the transactions' metadata: that of the sample, or as the producer names it by default."""
    if format_ not in ("debezium", "goldengate"):
        return None
    for topic, messages in (taken.topics if taken is not None else {}).items():
        if any("data_collections" in each or "data_collections" in (each.get("payload") or ()) for each in messages):
            return topic
    return f"{request.prefix or 'PREFIX'}.transaction" if format_ == "debezium" else "METADATA"


def _completeness(format_: str) -> str:
    rules = {"wal2json": "markers", "snapshots": "single"}
    rule = rules.get(format_, "counts")
    return "{rule: single}" if rule == "single" else f"{{rule: {rule}, patience: {PATIENCE}}}"


def _open_questions(request: Request, format_: str, taken: Sample | None) -> list[str]:
    """Return what only the user can know."""
    open_questions = []
    if format_ == "snapshots":
        open_questions.append(
            "whether an extract has all rows of its table (source.snapshots.extracts), and what its keys are."
        )
    topic = _transaction_topic(request, format_, taken)
    if format_ == "debezium" and (taken is None or topic not in taken.topics):
        open_questions.append(
            "whether the connector has provide.transaction.metadata=true: without it no transaction is ever whole."
        )
    if format_ == "debezium" and request.database is None and not (taken is not None and taken.has_schemas()):
        open_questions.append(
            "which numbers are dates and times: no message has its schema. With --database they are known."
        )
    if format_ == "goldengate" and topic == "METADATA":
        open_questions.append("which topic has the transactions' metadata (transaction_topic)?")
    if request.brokers is None and request.files is None:
        open_questions.append("where the messages are: source.files.path, or source.kafka.")
    if request.brokers is not None and (request.prefix is None or not request.database):
        open_questions.append("which topics the tables have (source.kafka.topics).")
    return open_questions
