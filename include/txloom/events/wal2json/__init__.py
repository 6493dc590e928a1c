"""wal2json, versions 1 and 2: changes of PostgreSQL's log."""
