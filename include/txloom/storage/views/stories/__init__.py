"""One transaction, one row, one message: what became of it."""
