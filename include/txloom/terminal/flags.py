"""The flags of `txloom status` and `txloom explain`; nothing heavy is imported for them."""

import argparse

EXIT_CODES = """exit codes: 0 shown; 2 refused: an unknown pipeline, table, key or page, or no warehouse; \
5 (explain) nothing is known of that transaction or key"""


def add_flags(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare both commands."""
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
    for command in (status, explain):
        rows = "rows of a list (default: 10)" if command is status else "rows of a page (default: 50)"
        command.add_argument("--rows", type=int, default=10 if command is status else 50, metavar="N", help=rows)
        command.add_argument("--warehouse", metavar="URI", help="where the tables lie (default: TXLOOM_WAREHOUSE)")
        command.add_argument("--json", action="store_true", help="print JSON, for machines")
