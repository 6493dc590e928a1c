"""A source that never runs dry: order-entry transactions, made up from a seed and written in every format.

orders plays the transactions; goldengate, debezium, wal2json, change_sets and change_events write them; faults damages
their delivery; truth says what the source held. `txloom generate` is the command.
"""
