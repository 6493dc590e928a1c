"""Cuts: the watermarks of tables, the newest cut, and the holds of readers."""
