"""Let tasks work on items: in processes of this machine where it is Spark's master, else in Spark's tasks.

Both call the same function. Tasks that only run Python need no JVM: on one machine a pool of processes saves its start,
which takes as long as a hundred megabytes of events.
"""

import math
import multiprocessing
import os
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from txloom.errors import TxloomError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
"""The master where none is named: this machine, with all its cores."""
MASTER = "TXLOOM_SPARK_MASTER"
CORES = "TXLOOM_SPARK_CORES"
"""The variable with the number of a cluster's cores, as the declaration's `spark` has it."""
CORES_OF_A_CLUSTER = 8
"""How many a cluster has where nothing is declared."""
T = TypeVar("T")
R = TypeVar("R")
_pool = threading.Lock()
"""Held while processes work: tables that are merged in parallel do not start as many each."""
_running = dict[str, "Sequence[Future[Any]]"]()
"""The tasks of processes, by the name of what they work on."""


def in_tasks(
    session: "Callable[[], SparkSession]", items: Sequence[T], work: Callable[[Iterable[T]], Iterable[R]]
) -> list[R]:
    """Let tasks work, each on one of some items, and return all that they yield, in the order of the items.

    Without items nothing is started.

    Args:
        session: opens the Spark session; not called where processes of this machine do the work.
        items: what the tasks work on; they begin in this order.
        work: gets one item; it and the items are pickled.

    Raises:
        TxloomError: a process was killed, or raised an error that cannot be pickled. Any other one is raised as it was,
            when no task runs any more; what Spark's task raises is part of an error of pyspark.
    """
    if not items:
        return []
    if (cores := local_cores()) and not _is_session_open():
        return _in_processes(items, work, min(cores, len(items)))
    worked: list[R] = session().sparkContext.parallelize(items, len(items)).mapPartitions(work).collect()
    return worked


def prepare(work: Callable[..., object]) -> None:
    """Let processes of this machine import what a later call of `in_tasks` with this work needs; return at once."""
    if local_cores() and not _is_session_open():
        _context(work)
        forkserver.ensure_running()


def local_cores() -> int:
    """Return how many cores of this machine Spark may use where it is the master; 0 where another machine is."""
    return 0 if "PYSPARK_GATEWAY_PORT" in os.environ else cores_of(os.environ.get(MASTER, LOCAL))


def cores() -> int:
    """Return how many cores work on tasks: of this machine where it is the master, else of the cluster (CORES)."""
    return local_cores() or int(os.environ.get(CORES) or CORES_OF_A_CLUSTER)


def cores_of(master: str) -> int:
    """Return how many cores of this machine a master names; 0 for another machine.

    >>> [cores_of(master) for master in ("local", "local[3]", "local[3,1]", "spark://one:7077")]
    [1, 3, 3, 0]
    """
    named = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master)
    if named is None:
        return 0
    return available_cores() if named[1] == "*" else int(named[1] or 1)


def available_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many cores this process may use: those it may run on, and no more than its container is given.

    quota: the file with a container's microseconds of processors and of time, or "max" and the latter.
    """
    cores = len(os.sched_getaffinity(0))
    try:
        given, period = quota.read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if given == "max" else max(1, min(cores, math.ceil(int(given) / int(period))))


def doing() -> str | None:
    """Describe the tasks that processes of this machine run now; None where they run none."""
    running = [(name, [each.done() for each in futures]) for name, futures in _running.copy().items()]
    texts = [f"{sum(done)} of {len(done)} tasks are done ({name})" for name, done in running]
    return "; ".join(texts) or None


def active_context() -> "SparkContext | None":
    """Return the context of this process's Spark session; pyspark is not imported where the process has not done so."""
    loaded = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return None if loaded is None else loaded._active_spark_context


def _is_session_open() -> bool:
    """Return whether this process has a Spark session, whose workers run already."""
    return active_context() is not None


def _in_processes(items: Sequence[T], work: Callable[[Iterable[T]], Iterable[R]], processes: int) -> list[R]:
    name = f"{work.__module__.rpartition('.')[2]}.{work.__qualname__}"
    packed, futures = _packed(work), list[Future[list[R]]]()
    with _pool, ProcessPoolExecutor(processes, _context(work), _end_with_parent) as pool:
        try:
            for item in items:
                futures.append(pool.submit(_worked, packed, _packed(item)))
            _running[name] = futures
            wait(futures, return_when=FIRST_EXCEPTION)
            failed = [each for each in futures if each.done() and each.exception() is not None]
            return [made for future in failed or futures for made in future.result()]
        except BrokenProcessPool as error:
            raise TxloomError(f"a process of {name} was killed, for lack of memory perhaps: run it again") from error
        finally:
            for future in futures:
                future.cancel()
            _running.pop(name, None)


def _packed(what: object) -> bytes:
    from pyspark import cloudpickle

    packed: bytes = cloudpickle.dumps(what)  # type: ignore[no-untyped-call]
    return packed


def _context(work: Callable[..., object]) -> "multiprocessing.context.ForkServerContext":
    """Return the way to start processes: forked from one that has imported what some work needs, and nothing more."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    return context


def _worked(work: bytes, item: bytes) -> list[R]:
    """Work on one item in a process of the pool; an error that cannot be sent as it is becomes a TxloomError."""
    function, on = pickle.loads(work), pickle.loads(item)
    try:
        return list(function([on]))
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001  (pickle raises what the error's class raises)
            raise TxloomError(f"{type(error).__name__}: {error}") from None
        raise


def _end_with_parent() -> None:
    """Let this process end when the one that started it does, also where that one was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
