"""OPTIMIZE, VACUUM, retention of history and of system tables."""
