"""txloom rebuilds source-database transactions out of CDC events and keeps Delta tables that always show a state the source really had."""

__version__ = "0.1.0"
