"""The read model: what people see of pipelines, as plain values, for the plugin's page and for a terminal; no Spark.

Every function takes a declared pipeline and the warehouse, and reads one version of each table. Every result has the
time as of which it is; None: nothing was ever written. Lists come in pages, with totals that count all rows. Texts are
as the source wrote them: what shows them must escape them.

    pipeline/overview.py      how all pipelines fare, red first, and why
    pipeline/waiting.py       transactions that wait for missing parts
    pipeline/problems.py      expectations, findings, incidents
    pipeline/dead_letters.py  dead letters by cause, and those that were dismissed
    pipeline/runs.py          the ledger by run, backfills, rebuilds after edits, partitions
    pipeline/cuts.py          published cuts and who reads them
    pipeline/lag_series.py    lag and throughput over time
    stories/transaction.py    the story of a transaction
    stories/row.py            the story of a row
"""
