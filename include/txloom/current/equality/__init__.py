"""One rule of when a value in the lake equals the source's: both sides write it as the same text."""
