"""The only room that touches Spark sessions' tables, Delta logs, source folders and paths."""
