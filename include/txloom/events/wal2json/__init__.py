"""wal2json, versions 1 and 2: changes from PostgreSQL's log."""
