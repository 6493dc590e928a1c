"""buffer_transactions: release whole transactions, give up those that waited too long."""
