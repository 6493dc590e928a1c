"""change_events: plans, decoding, offsets and watermarks of a landing."""
