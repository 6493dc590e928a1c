"""Maintenance: optimize, vacuum, clean history, expire old rows, statistics."""
