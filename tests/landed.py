"""What was landed, as the buffer takes it in: for tests that call its rule themselves."""

import numpy as np
import pyarrow as pa

from txloom.storage.buffer import batch_plan, buffer_stream
from txloom.storage.landing import landing_stream
from txloom.storage.paths import TablePaths
from txloom.transactions.compact_events import BUCKETS


def landed_between(paths: TablePaths, after: int, until: int) -> dict[int, np.ndarray]:
    """Return the events of each bucket in the landings after one up to another."""
    arrived = pa.concat_tables(landing_stream.arrivals(paths.change_events, after, until)).to_pandas()
    return {bucket: buffer_stream.unpacked([arrived.loc[arrived["bucket"] == bucket]]) for bucket in range(BUCKETS)}


def newest_landing(paths: TablePaths, taken: int) -> int:
    """Return the newest landing, or the one that was taken last."""
    ends = batch_plan.ends(paths, taken)
    return ends[-1].landing if ends else taken
