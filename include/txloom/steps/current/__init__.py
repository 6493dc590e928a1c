"""Compute rows and documents of current tables from history, at once or in pieces."""
