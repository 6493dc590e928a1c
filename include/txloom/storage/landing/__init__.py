"""Landings: their plans, decoding, offsets, rows of change_events and partitions' watermarks."""
