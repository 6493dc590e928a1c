"""backfill, shadow rows: the rows of shadow tables, and whether those of a backfill fit this process."""

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.steps.backfill.scope import Scope, Target
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.targets import shadow_tables


def is_small(scope: Scope) -> bool:
    """Say whether the tables of a backfill fit this process."""
    return _live_rows(scope) <= arrow_tables.LOCAL_ROWS


def _live_rows(scope: Scope) -> int:
    """Count the rows of all live tables of a backfill."""
    total = 0
    for target in [*scope.histories, *scope.currents]:
        rows = small_tables.query(scope.paths.table(target.name), "select count(*) as n from t")
        total += rows[0]["n"] if rows else 0
    return total


def without_cleaned(target: Target, rows: pa.Table) -> pa.Table:
    """Leave out rows of a history where it was cleaned."""
    csn = rows.column("_txloom_csn")
    return rows.filter(pc.greater(csn, pa.scalar(target.above))) if target.above else rows


def write_shadow(scope: Scope, target: Target, rows: pa.Table) -> None:
    """Write the shadow of a table."""
    shadow_tables.write(scope.paths.table(names.shadow_table(target.name)), arrow_tables.conform(rows, target.schema))


def shadow(scope: Scope, target: Target, where: str = "true") -> pa.Table:
    """Return the rebuilt rows of a table."""
    return shadow_tables.live(scope.paths.table(names.shadow_table(target.name)), target.schema, where)
