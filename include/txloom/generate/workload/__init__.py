"""An order-entry workload: tables, values, transactions."""
