"""The causes for which a transaction is given up, each with a hint of what an operator can do."""

from txloom.transactions import completeness

LATE = "late event of a finished transaction"
UNCOUNTED = {"D": "counts ignore deletes", "T": "counts ignore truncates", "U": "counts ignore updates"}
"""By operation, the cause of an excess that consists of exactly the events of that operation."""
COMPLETE = "complete now"
"""The cause of a dead transaction that late events have made whole: it is redriven, or waits for an approval."""
UNREADABLE = "value cannot be read"

HINTS = {
    completeness.NO_METADATA: "Look whether the metadata producer runs and names every transaction; when the metadata "
    "comes after all, redrive the transaction.",
    completeness.SHORT: "Rows are missing: compare the producer's offsets with what was landed; send the rows again, "
    "then redrive.",
    completeness.EXCESS: "More rows than the metadata counts: look for a producer that leaves operations out of its "
    "counts or groups transactions; supply corrected metadata, then redrive.",
    completeness.CONFLICT: "Two different payloads claim one identity: the producer restarted inside the transaction "
    "or writes two streams into one topic; decide which is right, or load a snapshot of its tables "
    "(jobs/load_snapshot.py).",
    completeness.SUSPECT: "The producer restarted inside the transaction, rows between its runs may be missing, and "
    "completeness.suspects is hold: load a snapshot of the tables that the finding names (jobs/load_snapshot.py); or "
    "compare them with the source, then redrive, which releases it.",
    completeness.BEHIND: "A partition of the source has not shown a later transaction yet (table source_partitions): "
    "look whether its producer runs; a heartbeat there, or completeness.idle_after, lets a quiet one pass.",
    completeness.UNREADABLE: "An event beside it could not be read (dead letters of kind poison), and whose it was is "
    "not known: "
    "have it sent again, or see that nothing is missing, then redrive the transaction.",
    completeness.TOO_LARGE: "It has more rows than completeness.max_rows allows, counted or come: raise that, or leave "
    "it out, then redrive the transaction.",
    UNCOUNTED["D"]: "The metadata's producer leaves deletes out (IGNOREDELETES): take that out of its replicat, "
    "supply corrected metadata, then redrive.",
    UNCOUNTED["T"]: "The metadata's producer leaves truncates out: give both replicats GETTRUNCATES, supply corrected "
    "metadata, then redrive.",
    UNCOUNTED["U"]: "The metadata's producer leaves updates out (IGNOREUPDATES): take that out of its replicat, "
    "supply corrected metadata, then redrive.",
    COMPLETE: "What was missing has come: redrive the transaction, if the pipeline does not do so by itself.",
    LATE: "The row came after its transaction was released, and its table lacks it. A redrive does not help: load a "
    "snapshot of the table (jobs/load_snapshot.py), then dismiss the dead letter.",
    UNREADABLE: "A value does not fit its declared type: declare one that it fits, then redrive. Where the source has "
    "written the row anew since, dismiss it.",
}

GOLDENGATE_HINTS = {
    completeness.NO_METADATA: "Look whether the metadata producer runs and names every transaction (GROUPTRANSOPS 1, "
    "no IGNOREDELETES); when the metadata comes after all, redrive the transaction.",
    completeness.EXCESS: "More rows than the metadata counts: look for a producer that counts without deletes "
    "(IGNOREDELETES) or groups transactions (GROUPTRANSOPS above 1); supply corrected metadata, then redrive.",
}
DEBEZIUM_HINTS = {
    completeness.NO_METADATA: "No END came: look whether the connector runs, has provide.transaction.metadata=true and "
    "sends its transaction topic here (SQL Server's comes with the next transaction); when it comes, redrive.",
    completeness.EXCESS: "More rows than END counts: a connector that restarts inside a transaction may count too few. "
    "Load a snapshot of the transaction's tables (jobs/load_snapshot.py), or an ad-hoc one by the connector.",
    completeness.SHORT: "Rows are missing: compare the connector's topics with what was landed (is one not read, did "
    "records age out?); send the rows again, then redrive. If the connector restarted inside the transaction, its rows "
    "are lost: load a snapshot of the transaction's tables (jobs/load_snapshot.py).",
    completeness.CONFLICT: "Two different payloads, or two ENDs with other counts, have one identity: the connector "
    "restarted inside the transaction, or two connectors write into one topic; load a snapshot of its tables "
    "(jobs/load_snapshot.py).",
}
"""Hints that replace the general ones for one format, because they name its producer's settings."""
