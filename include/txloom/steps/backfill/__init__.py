"""backfill: rebuild a range of history beside the tables, compare, apply."""
