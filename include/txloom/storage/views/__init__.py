"""The read model: what people see of pipelines, as plain values, for the plugin's page and for a terminal; no Spark.

Every function takes a declared pipeline and the warehouse, and looks at one version of each table. Every answer says as
of when it is: None where nothing was ever written. Lists come in pages, with totals that count everything. Texts are as
the source wrote them: whoever shows them escapes them.

    overview.py      how all pipelines fare, red first, and why       problems.py     expectations, findings, incidents
    waiting.py       transactions that wait for missing parts         letters.py      dead letters
    runs.py          the ledger by run, backfills, partitions         cuts.py         published cuts and who reads them
    series.py        lag and throughput over time                     transaction.py  the story of a transaction
    key.py           the story of a row
"""
