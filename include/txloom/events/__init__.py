"""Events: messages of sources, decoded into one envelope and typed images; no Spark, no I/O."""
