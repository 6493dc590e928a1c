"""The story of one transaction, one row, one message."""
