"""Settle what a changed declaration left open: make histories again, and name what needs a snapshot."""
