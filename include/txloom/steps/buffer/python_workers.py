"""Spark's Python workers are forked from this process, which has imported what they need: once, not once a worker.

Spark starts it as `spark.python.daemon.module`. Nothing may be computed here: threads do not survive a fork.
"""

from pyspark.daemon import manager

import txloom.steps.buffer.release_batch  # noqa: F401  what all tasks need hangs below it

if __name__ == "__main__":
    manager()
