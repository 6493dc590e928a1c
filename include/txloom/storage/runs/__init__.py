"""Runs of a pipeline: who may write."""
