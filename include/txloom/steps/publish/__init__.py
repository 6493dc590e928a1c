"""publish, and the expectations that hold it."""
