"""The rule that decides when a source transaction is whole; it uses neither Spark nor Delta nor the system clock."""
