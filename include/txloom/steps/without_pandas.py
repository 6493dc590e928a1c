"""Keep pyarrow from importing pandas with its first value: that takes a quarter of a job's start, and no value is its.

A job imports this module before all others of txloom. Pyarrow looks for pandas once, and finds none; whatever asks for
pandas afterwards gets it, and so does pyarrow where rows are to become a frame of pandas. Until then it does not know a
Series from any other sequence: a process that hands it some, as Spark's workers are, must not import this module.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,  # noqa: ARG002  the import system gives it
        target: ModuleType | None = None,  # noqa: ARG002  likewise
    ) -> None:
        """Raise ImportError for pandas, leave everything else to other finders."""
        if name == "pandas":
            raise ImportError("not now")


if "pandas" not in sys.modules:
    sys.meta_path.insert(0, finder := _NoPandas())
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(finder)
