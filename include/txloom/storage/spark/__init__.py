"""Spark sessions, and the progress that they log."""
