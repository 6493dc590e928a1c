"""Histories, mirrors and documents: schemas, partitions, Spark's folds."""
