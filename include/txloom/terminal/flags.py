"""The flags of `txloom status`, `txloom explain` and `txloom audit`; nothing heavy is imported for them."""

import argparse

EXIT_CODES = """exit codes: 0 shown; 2 refused: an unknown pipeline, table, key or page, or no warehouse; \
5 (explain) nothing is known of that transaction or key"""


AUDIT_CODES = """exit codes: 0 every row is equal; 6 some rows differ, or could not be decided; 2 refused: no database \
is declared, or it lacks a table; 12 the database does not answer"""


def add_flags(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the commands."""
    summary = "how all pipelines fare, or one of them"
    status = commands.add_parser("status", help=summary, description=f"Say {summary}.", epilog=EXIT_CODES)
    status.add_argument(
        "pipeline", nargs="?", metavar="PIPELINE", help="name or file; without one: all, the worst first"
    )
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
    for command in (status, explain):
        rows = "rows of a list (default: 10)" if command is status else "rows of a page (default: 50)"
        command.add_argument("--rows", type=int, default=10 if command is status else 50, metavar="N", help=rows)
    for command in (status, explain, audit):
        command.add_argument("--warehouse", metavar="URI", help="where the tables lie (default: TXLOOM_WAREHOUSE)")
        command.add_argument("--json", action="store_true", help="print JSON, for machines")
