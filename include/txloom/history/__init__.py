"""History: every change of every row with its transaction, as Arrow tables; no Delta table is read or written here.

Events come as one Arrow table per source table: tx, xid, csn, pos, op, committed_at, landing, row, and the columns of
an image reader (after, unchanged, before, before_known, absent).
"""
