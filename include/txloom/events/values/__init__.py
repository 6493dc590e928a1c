"""Reading values of sources as declared types: one at a time, and whole columns at once."""
