"""The transaction buffer's tables and checkpoints, and its stream."""
