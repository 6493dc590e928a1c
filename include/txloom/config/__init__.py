"""Declarations of pipelines: what a YAML file in include/pipelines may say, read with every mistake told at once."""

from txloom.config.reading import discover, find, load, pipelines_dir

__all__ = ["discover", "find", "load", "pipelines_dir"]
