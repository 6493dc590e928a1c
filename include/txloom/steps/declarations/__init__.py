"""Record that a declaration changed, before anything is written by it."""
