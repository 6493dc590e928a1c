"""Current tables: the pure core that folds changes into rows; no Spark, no I/O."""
