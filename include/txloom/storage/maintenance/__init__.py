"""OPTIMIZE, VACUUM, and the retention of history and of system tables."""
