"""Events: what the sources send, decoded into one envelope and typed images; no Spark, no I/O."""
