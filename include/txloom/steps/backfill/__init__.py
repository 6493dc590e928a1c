"""backfill: rebuild a range of history in shadow tables, compare them with the live tables, apply what differs."""
