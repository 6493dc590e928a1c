"""Cuts: how far tables are, which cut is the newest, who reads one."""
