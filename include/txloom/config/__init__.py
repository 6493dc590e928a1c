"""Declarations of pipelines: the YAML files in include/pipelines, read so that all mistakes are reported at once."""

from txloom.config.load import connections_of, discover, find, load, locate, pipelines_dir

__all__ = ["connections_of", "discover", "find", "load", "locate", "pipelines_dir"]
