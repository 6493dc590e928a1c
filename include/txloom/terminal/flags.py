"""The flags of `txloom status`, `explain`, `audit`, `plan`, `dbt` and `init`; nothing heavy is imported for them."""

import argparse
from pathlib import Path

EXIT_CODES = """exit codes: 0 shown; 2 refused: an unknown pipeline, table, key or page, or no warehouse; \
5 (explain) nothing is known of that transaction or key"""


PLAN_CODES = "exit codes: 0 shown; 2 refused: the declaration is wrong, or there is none"
DRY_CODES = """exit codes: 0 all would be fine; 6 there would be dead letters, findings or failed expectations; \
2 refused; 12 the source cannot be reached"""
INIT_CODES = """exit codes: 0 written; 2 refused, or it needs you before it can run; 12 the database does not answer"""
AUDIT_CODES = """exit codes: 0 every row is equal; 6 some rows differ, or could not be decided; 2 refused: no database \
is declared, or it lacks a table, or a file cannot be read; 12 the database does not answer"""


def add_flags(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the commands."""
    summary = "how all pipelines fare, or one of them"
    status = commands.add_parser("status", help=summary, description=f"Say {summary}.", epilog=EXIT_CODES)
    status.add_argument(
        "pipeline", nargs="?", metavar="PIPELINE", help="name or file; without one: all, the worst first"
    )
    since = "also what changed since then: a duration such as 2h, or a time in ISO 8601, in UTC where it says no zone"
    status.add_argument("--since", metavar="WHEN", help=since)
    summary = "the whole history of a transaction, or of a row"
    explain = commands.add_parser("explain", help=summary, description=f"Show {summary}.", epilog=EXIT_CODES)
    explain.add_argument("pipeline", metavar="PIPELINE", help="name or file")
    explain.add_argument("xid", nargs="?", metavar="XID", help="the transaction's xid, or its id such as 1547:34413208")
    explain.add_argument("--csn", type=int, metavar="N", help="the transaction's csn")
    key = "TABLE COLUMN=VALUE ...: a row of a watched table or mirror, or a document of an aggregate"
    explain.add_argument("--key", nargs="+", metavar=("TABLE", "COLUMN=VALUE"), help=key)
    explain.add_argument("--page", type=int, default=1, metavar="N", help="page of events or changes (default: 1)")
    summary = "compare every row with the live database that the declaration names"
    audit = commands.add_parser("audit", help=summary, description=f"{summary.capitalize()}.", epilog=AUDIT_CODES)
    audit.add_argument("pipeline", metavar="PIPELINE", help="name or file")
    audit.add_argument("--table", action="append", default=[], help="a declared table, or several with commas")
    wait = "seconds to wait until the lake shows the database's snapshot (default: as declared)"
    audit.add_argument("--wait", type=float, metavar="N", help=wait)
    folder = "compare with the files of a snapshot folder instead of the declared database"
    audit.add_argument("--snapshot", metavar="FOLDER", help=folder)
    audit.add_argument("--csn", type=int, metavar="N", help="as of which its rows are (default: its date's)")
    _init_flags(commands)
    summary = "what a declaration will make, before anything is written"
    plan = commands.add_parser("plan", help=summary, description=f"Show {summary}.", epilog=PLAN_CODES)
    plan.add_argument("pipeline", metavar="PIPELINE", help="name or file")
    summary = "what a pipeline would make of a sample of its source; nothing of it stays"
    dry = commands.add_parser("dry-run", help=summary, description=f"Show {summary}.", epilog=DRY_CODES)
    dry.add_argument("pipeline", metavar="PIPELINE", help="name or file")
    dry.add_argument("--keep", type=Path, metavar="DIR", help="keep the sample and its tables there")
    dry.add_argument("--rows", type=int, default=10, metavar="N", help="rows of a list (default: 10)")
    dry.add_argument("--json", action="store_true", help="print JSON, for machines")
    _dbt_flags(commands)
    for command in (status, explain):
        rows = "rows of a list (default: 10)" if command is status else "rows of a page (default: 50)"
        command.add_argument("--rows", type=int, default=10 if command is status else 50, metavar="N", help=rows)
    for command in (status, explain, audit, plan):
        command.add_argument("--warehouse", metavar="URI", help="where the tables lie (default: TXLOOM_WAREHOUSE)")
        command.add_argument("--json", action="store_true", help="print JSON, for machines")


def _dbt_flags(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "write the tables of a pipeline as sources of dbt, with freshness"
    dbt = commands.add_parser("dbt", help=summary, description=f"{summary.capitalize()}.", epilog=PLAN_CODES)
    dbt.add_argument("pipeline", metavar="PIPELINE", help="name or file")
    dbt.add_argument("--engine", choices=("spark", "duckdb"), help="what dbt runs on (default: spark)")
    dbt.add_argument("--schema", metavar="NAME", help="where Spark finds the tables (default: targets.catalog)")
    dbt.add_argument("--out", type=Path, metavar="FILE", help="such as models/sources.yml (default: standard output)")
    dbt.add_argument("--force", action="store_true", help="replace the file")
    dbt.add_argument("--warehouse", metavar="URI", help="where the tables lie (default: TXLOOM_WAREHOUSE)")


def _init_flags(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    summary = "write a first declaration out of a database, a sample of a stream, or extracts"
    init = commands.add_parser("init", help=summary, description=f"{summary.capitalize()}.", epilog=INIT_CODES)
    add = init.add_argument
    add("name", metavar="NAME", help="of the pipeline")
    add(
        "--database",
        metavar="URI",
        help="of PostgreSQL, MySQL or MariaDB: its catalog says tables, types and keys",
    )
    add("--schema", metavar="NAME,...", help="schemas of the database (default: all)")
    add("--tables", metavar="NAME,...", help="tables (default: all)")
    add("--format", metavar="FORMAT", help="debezium, wal2json, goldengate or snapshots (default: that of the sample)")
    add("--files", type=Path, metavar="DIR", help="source.files.path: a folder for each topic, or for each date")
    add("--kafka", metavar="BROKERS", help="source.kafka.brokers, instead of files")
    add("--prefix", metavar="NAME", help="topic.prefix of the Debezium connector")
    add("--connection", metavar="ID", help="Airflow's connection to the database, for audits")
    add("--out", type=Path, metavar="FILE", help="default: NAME.yaml in the folder of declarations; -: standard output")
    add("--force", action="store_true", help="replace the file")
