"""Snapshots: load one, compare two dates."""
