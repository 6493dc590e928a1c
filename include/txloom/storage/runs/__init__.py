"""Runs of a pipeline: the lease that lets one of them write."""
