"""History: every change of every row with its transaction, as frames; no table is read or written here."""
