"""Alerts: which incidents are reported, and the channels that messages are sent over."""
