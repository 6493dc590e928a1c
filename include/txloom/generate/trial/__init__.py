"""A source that lives: order entry that goes on in real time, can be damaged as real sources are, and repaired."""
