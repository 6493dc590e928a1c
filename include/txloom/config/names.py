"""The one place where names come from: tables, checkpoints, leases, DAG ids, assets, pools and Spark applications."""

CHANGE_EVENTS = "change_events"
DEAD_LETTERS = "dead_letters"
DISMISSALS = "dismissals"
TRANSACTIONS = "transactions"
PENDING_TRANSACTIONS = "pending_transactions"
LEDGER = "ledger"
CUTS = "cuts"
LANDED_FILES = "landed_files"
LANDED_OFFSETS = "landed_offsets"
FILE_POSITIONS = "file_positions"
SOURCE_PARTITIONS = "source_partitions"
SOURCE_SNAPSHOTS = "source_snapshots"
SOURCE_NAMES = "source_names"
EXPECTATION_RESULTS = "expectation_results"
TABLE_STATISTICS = "table_statistics"
EVOLVED_COLUMNS = "evolved_columns"
FINDINGS = "findings"
LEASES = "leases"
BACKFILLS = "backfills"
INCIDENTS = "incidents"
READERS = "readers"

PIPELINE_TABLES = (
    CHANGE_EVENTS,
    DEAD_LETTERS,
    DISMISSALS,
    TRANSACTIONS,
    PENDING_TRANSACTIONS,
    LEDGER,
    CUTS,
    LANDED_FILES,
    LANDED_OFFSETS,
    FILE_POSITIONS,
    SOURCE_PARTITIONS,
    SOURCE_SNAPSHOTS,
    SOURCE_NAMES,
    EXPECTATION_RESULTS,
    TABLE_STATISTICS,
    EVOLVED_COLUMNS,
    FINDINGS,
    LEASES,
    BACKFILLS,
    INCIDENTS,
    READERS,
)
"""Tables that every pipeline has; a declaration may not name a target after one of them."""

REPORTS = "_reports"
"""The folder of the reports of runs, beside the tables."""

DATA_DOCS = "data_docs"
"""The folder of Great Expectations' pages of a run, in that of its report."""

SYSTEM_PREFIX = "_txloom_"
"""Prefix of the columns that txloom adds to current and history tables."""

POSITION = (f"{SYSTEM_PREFIX}csn", f"{SYSTEM_PREFIX}xid", f"{SYSTEM_PREFIX}pos")
"""What tells the changes in a history, and the rows of a table without a key, apart: the transaction, and where in it
the row was changed. Neither csn nor position does alone: all rows of a connector's snapshot have one."""

PARTITION = f"{SYSTEM_PREFIX}partition"
"""The column that names the partitions of a current table where no declared column can."""

LOAD, LOAD_METADATA = f"{SYSTEM_PREFIX}load", f"{SYSTEM_PREFIX}load_metadata"
LOADS = (LOAD, LOAD_METADATA)
"""The topics of what txloom lands itself: rows as GoldenGate writes them, whatever the source's format is."""

MAINTENANCE_TASKS = ("clean_history", "expire", "optimize", "vacuum", "statistics")
"""What maintain_tables does, in the order in which the maintenance DAG runs it."""

VALIDATE = "validate"
"""The last task of the maintenance DAG, where expectations are declared: a job of its own, without Spark."""

BACKFILL_TASKS = ("rebuild", "compare", "apply", "drop")
"""What backfill does, in the order in which the backfill DAG runs it."""


def table_path(warehouse: str, pipeline: str, table: str) -> str:
    """Return the Delta folder of one table.

    >>> table_path("file:///lake/", "orders", "cuts")
    'file:///lake/orders/cuts'
    """
    return f"{warehouse.rstrip('/')}/{pipeline}/{table}"


def checkpoint_path(warehouse: str, pipeline: str, step: str, epoch: int) -> str:
    """Return the folder that holds the streaming checkpoint of one step and generation."""
    return f"{warehouse.rstrip('/')}/{pipeline}/_checkpoints/{step}/g{epoch}"


def stream_table(aggregate: str) -> str:
    """Return the name of an aggregate's history where its declaration gives none."""
    return f"{aggregate}_stream"


def document_table(aggregate: str) -> str:
    """Return the name of an aggregate's current table where its declaration gives none."""
    return f"{aggregate}_current"


def changes_table(table: str) -> str:
    """Return the name of a mirror's history where its declaration gives none."""
    return f"{table}_changes"


def row_store(table: str) -> str:
    """Return the name of the current table kept for a member of an aggregate that no mirror declares."""
    return f"_rows_{table}"


def shadow_table(table: str) -> str:
    """Return the name of what a backfill rebuilt beside a history or current table."""
    return f"_shadow_{table}"


def difference_table(table: str) -> str:
    """Return the name of the table of what a backfill would change in a history or current table."""
    return f"_difference_{table}"


def write_id(pipeline: str, table: str, epoch: int) -> str:
    """Return the txnAppId of numbered writes into a table, or of a step into the ledger (promise 9)."""
    return f"{pipeline}:{table}:{epoch}"


def cdc_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that runs a pipeline's cycle."""
    return f"{pipeline}_cdc"


def is_cdc_dag(dag_id: str) -> bool:
    """Tell whether a DAG's id is that of a pipeline's cycle.

    >>> is_cdc_dag("orders_cdc")
    True
    """
    return dag_id.endswith("_cdc")


def consumer_dag_id(pipeline: str) -> str:
    """Return the id of the example DAG that reads each cut of a pipeline."""
    return f"{pipeline}_cut_consumer"


def maintenance_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that maintains a pipeline's tables."""
    return f"{pipeline}_maintenance"


def backfill_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that rebuilds a pipeline's tables beside the live ones and repairs them."""
    return f"{pipeline}_backfill"


def is_backfill_dag(dag_id: str) -> bool:
    """Tell whether a DAG's id is that of a pipeline's backfill.

    >>> is_backfill_dag("orders_backfill")
    True
    """
    return dag_id.endswith(backfill_dag_id(""))


def load_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that loads tables of a pipeline from a snapshot."""
    return f"{pipeline}_load"


def dead_letters_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that lists and redrives a pipeline's dead letters."""
    return f"{pipeline}_dead_letters"


def alerts_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that looks for a pipeline's incidents."""
    return f"{pipeline}_alerts"


def pool_name(pipeline: str) -> str:
    """Return the name of the one-slot Airflow pool of a pipeline's stream."""
    return f"txloom_{pipeline}"


def asset_uri(pipeline: str) -> str:
    """Return the URI of the asset that `publish` emits."""
    return f"txloom://{pipeline}/cuts"


def application_name(pipeline: str, step: str) -> str:
    """Return the name of a Spark application as the UI shows it."""
    return f"txloom {pipeline} {step}"
