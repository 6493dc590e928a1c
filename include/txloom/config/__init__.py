"""Declarations of pipelines: what a YAML file in include/pipelines may say, read with every mistake told at once."""

from txloom.config.load import connections_of, discover, find, load, locate, pipelines_dir

__all__ = ["connections_of", "discover", "find", "load", "locate", "pipelines_dir"]
