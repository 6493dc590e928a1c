"""The Spark session of a job, with the same settings under spark-submit and under plain python."""

import os
import sys
import threading
from collections.abc import Mapping

from pyspark import SparkContext, inheritable_thread_target
from pyspark.sql import SparkSession

from txloom.config import jvm
from txloom.config.project import class_path
from txloom.storage.spark import cluster, tasks
from txloom.storage.stores import access
from txloom.storage.stores.file_systems import clear

SHUFFLE_PARTITIONS = 4
"""Partitions of a shuffle, as a small driver has cores. A state store keeps the number of its first run for good."""

STREAMING_STATE = "org.apache.spark.sql.execution.streaming.state"

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Spark's default is INT96, which delta-rs reads as nanoseconds: 9999-12-31 comes back as 1816-03-30.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.sql.streaming.stateStore.providerClass": f"{STREAMING_STATE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Snapshots are written and old changelogs removed in maintenance, every minute by default: no job lives that long,
    # and each batch would replay all changelogs since the first one.
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.python.daemon.module": "txloom.steps.buffer.python_workers",
    # A daemon's workers serve one environment: with simplified tracebacks SQL's have another one than other tasks have,
    # and a second daemon imports everything again.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.cleaner.referenceTracking.cleanCheckpoints": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

SCRATCH = "_spark"
"""The folder in that of a pipeline for rows that Spark computes on a cluster and reads again."""
ON_THIS_MACHINE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Where the executors are in the driver's process, nobody else needs to reach it."""


def open_session(
    application: str, step: str | None = None, lake: str = "", declared: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the Spark session of this process, which is started where there is none.

    The master comes from spark-submit or TXLOOM_SPARK_MASTER, else it is `local[*]`. Class path and JVM flags are set
    only where python starts the JVM, because under spark-submit it runs already.

    Args:
        application: the name that Spark shows.
        step: the step that runs, which decides on the JVM's flags (`txloom.config.jvm`); None: a long session.
        lake: the pipeline's folder in the warehouse, whose store the session reaches.
        declared: further settings, which go before those of txloom.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings, given = {**SETTINGS, **access.hadoop_settings(lake)}, dict(declared or {})
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _session(application, settings | given)
    master = os.environ.get(tasks.MASTER, tasks.LOCAL)
    settings |= launch_settings(step)
    if tasks.cores_of(master):
        settings |= ON_THIS_MACHINE
    else:
        os.environ["PYSPARK_PYTHON"] = cluster.executor_python()
        settings |= cluster.executor_settings(class_path())
        settings["spark.sql.shuffle.partitions"] = str(max(SHUFFLE_PARTITIONS, tasks.cores()))
    with cluster.launching({"spark.master": master, **settings, **given}):
        session = _session(application, {})
    if lake and not tasks.cores_of(master):
        clear(f"{lake}/{SCRATCH}")
        session.sparkContext.setCheckpointDir(f"{lake}/{SCRATCH}")
    return session


def _session(application: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(application)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(os.environ.get("TXLOOM_SPARK_LOG", "ERROR"))
    return session


def launch_settings(step: str | None) -> dict[str, str]:
    """Return the settings that the JVM is started with: class path, memory and flags; step: as of `open_session`."""
    return {
        "spark.driver.extraClassPath": class_path(),
        "spark.driver.extraJavaOptions": jvm.flags(step),
        "spark.driver.memory": os.environ.get("TXLOOM_DRIVER_MEMORY", "2g"),
    }


def silence() -> None:
    """Let Spark log nothing more, if there is a session: a job that fails while Python workers start has the last word.

    Otherwise the JVM reports the workers that end with the job, behind the line that says why the job failed.
    """
    if (context := SparkContext._active_spark_context) is not None:
        context.setLogLevel("OFF")


def warm_workers(spark: SparkSession) -> None:
    """Start Spark's Python worker processes in a thread, so that they import while the JVM plans; return at once."""
    context = spark.sparkContext

    def start() -> None:
        context.parallelize([0], 1).map(abs).collect()

    threading.Thread(target=inheritable_thread_target(spark)(start), daemon=True).start()
