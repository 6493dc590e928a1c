"""All names that txloom gives: tables, checkpoints, leases, DAG ids, assets, pools and Spark applications."""

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
ROWS_AHEAD = "rows_ahead"
EXPECTATION_RESULTS = "expectation_results"
TABLE_STATISTICS = "table_statistics"
EVOLVED_COLUMNS = "evolved_columns"
FINDINGS = "findings"
LEASES = "leases"
BACKFILLS = "backfills"
INCIDENTS = "incidents"
READERS = "readers"
OPEN_DEAD_LETTERS = "open_dead_letters"
AUDIT_RESULTS = "audit_results"
SNAPSHOT_REQUESTS = "snapshot_requests"
COMPLETENESS = "completeness"
COMPUTED_TABLES = "computed_tables"

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
    ROWS_AHEAD,
    EXPECTATION_RESULTS,
    TABLE_STATISTICS,
    EVOLVED_COLUMNS,
    FINDINGS,
    LEASES,
    BACKFILLS,
    INCIDENTS,
    READERS,
    OPEN_DEAD_LETTERS,
    AUDIT_RESULTS,
    SNAPSHOT_REQUESTS,
    COMPLETENESS,
    COMPUTED_TABLES,
)
"""The system tables, which every pipeline has; a target may not have one of these names."""

REPORTS = "_reports"
"""The folder of the runs' reports, beside the tables."""

RUNS = "_runs"
"""The folder of the result files of the runs' jobs, beside the tables."""

OVERVIEW = "_overview"
"""The file of what the overview shows of a pipeline, with the states of the tables that it was read of."""

DATA_DOCS = "data_docs"
"""The folder of Great Expectations' pages of a run, inside the run's report folder."""

HIGHEST_RELEASE = 2**63 - 1
"""A release that bounds nothing."""

SYSTEM_PREFIX = "_txloom_"
"""Prefix of the columns that txloom adds to current and history tables."""

POSITION = (f"{SYSTEM_PREFIX}csn", f"{SYSTEM_PREFIX}xid", f"{SYSTEM_PREFIX}pos")
"""The columns that identify a change in a history, and a row of a table without a key: the transaction, and the
position in it. Neither csn nor position is enough: all rows of a connector's snapshot have the same."""

PARTITION = f"{SYSTEM_PREFIX}partition"
"""The column that names the partitions of a current table where no declared column can."""

LOAD, LOAD_METADATA = f"{SYSTEM_PREFIX}load", f"{SYSTEM_PREFIX}load_metadata"
LOADS = (LOAD, LOAD_METADATA)
"""The topics of rows that txloom lands itself, in GoldenGate's layout, whatever the source's format is."""

MAINTENANCE_TASKS = ("clean_history", "expire", "optimize", "vacuum", "statistics", "register")
"""What maintain_tables does, in the order in which the maintenance DAG runs it."""

VALIDATE = "validate"
"""The last task of the maintenance DAG, present where expectations are declared: a separate job without Spark."""

BACKFILL_TASKS = ("rebuild", "compare", "apply", "drop")
"""What backfill does, in the order in which the backfill DAG runs it."""


def table_path(warehouse: str, pipeline: str, table: str) -> str:
    """Return the Delta folder of one table.

    >>> table_path("file:///lake/", "orders", "cuts")
    'file:///lake/orders/cuts'
    """
    return f"{warehouse.rstrip('/')}/{pipeline}/{table}"


def checkpoint_path(warehouse: str, pipeline: str, step: str, epoch: int) -> str:
    """Return the folder that holds the streaming checkpoint of one step and checkpoint epoch."""
    return f"{warehouse.rstrip('/')}/{pipeline}/_checkpoints/{step}/g{epoch}"


def maintenance_step(task: str) -> str:
    """Return the step under which the ledger has a maintenance task."""
    return f"maintain_tables.{task}"


def stream_table(aggregate: str) -> str:
    """Return the default name of an aggregate's history."""
    return f"{aggregate}_stream"


def document_table(aggregate: str) -> str:
    """Return the default name of an aggregate's current table."""
    return f"{aggregate}_current"


def changes_table(table: str) -> str:
    """Return the default name of a mirror's history."""
    return f"{table}_changes"


def row_store(table: str) -> str:
    """Return the name of the row table of a member of an aggregate that no mirror declares."""
    return f"_rows_{table}"


def shadow_table(table: str) -> str:
    """Return the name of the table that a backfill rebuilds beside a history or current table."""
    return f"_shadow_{table}"


def difference_table(table: str) -> str:
    """Return the name of the table that lists what a backfill would change in a history or current table."""
    return f"_difference_{table}"


def write_id(pipeline: str, table: str, epoch: int) -> str:
    """Return the txnAppId of numbered writes into a table, or of a step into the ledger (promise 9)."""
    return f"{pipeline}:{table}:{epoch}"


def cdc_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that runs a pipeline's cycle."""
    return f"{pipeline}_cdc"


def is_cdc_dag(dag_id: str) -> bool:
    """Return whether a DAG's id is that of a pipeline's cycle.

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
    """Return whether a DAG's id is that of a pipeline's backfill.

    >>> is_backfill_dag("orders_backfill")
    True
    """
    return dag_id.endswith(backfill_dag_id(""))


def load_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that loads tables of a pipeline from a snapshot."""
    return f"{pipeline}_load"


def audit_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that compares a pipeline's tables with the live source."""
    return f"{pipeline}_audit"


def repair_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that loads the rows of a pipeline which an audit found to differ."""
    return f"{pipeline}_repair"


def snapshot_dag_id(pipeline: str) -> str:
    """Return the id of the DAG that asks a pipeline's connector for a snapshot of tables."""
    return f"{pipeline}_snapshot"


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


def dag_ids(pipeline: str) -> set[str]:
    """Return the ids of all DAGs of a pipeline, of which it may lack some."""
    ids = (cdc_dag_id, maintenance_dag_id, backfill_dag_id, load_dag_id)
    more = (dead_letters_dag_id, alerts_dag_id, consumer_dag_id, audit_dag_id, repair_dag_id, snapshot_dag_id)
    return {name(pipeline) for name in (*ids, *more)}
