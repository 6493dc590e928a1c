"""Maintenance: OPTIMIZE and VACUUM, retention of history, expiry."""
