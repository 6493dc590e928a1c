"""Spark sessions, and lines about their progress in the task's log."""
