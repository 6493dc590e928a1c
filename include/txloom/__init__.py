"""txloom rebuilds source transactions out of CDC events and keeps Delta tables in states that the source really had."""

__version__ = "0.1.0"
