"""A simulated source: order-entry transactions, generated from a seed and written in every format.

`workload` plays the transactions; `formats` writes them; `faults` damages their delivery; `truth` records the rows that
the source held. `txloom generate` is the command.
"""
