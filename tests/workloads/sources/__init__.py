"""Sources of random workloads: schemas, values, a database, and the messages that each format writes of its changes."""
