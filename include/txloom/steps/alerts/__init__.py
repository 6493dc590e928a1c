"""Alerts: what is told to whom, through which channels."""
