"""Snapshots: load one, and compare the extracts of a date with the current tables."""
