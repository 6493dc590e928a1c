"""The daemon of Spark's Python workers: they are forked from it, so that what they need is imported once.

Spark starts this module as `spark.python.daemon.module`. Nothing may be computed here, because threads do not survive a
fork.
"""

from pyspark.daemon import manager

import txloom.steps.buffer.release_batch  # noqa: F401  it imports what all tasks need

if __name__ == "__main__":
    manager()
