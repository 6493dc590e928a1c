"""backfill, shadow rows: read and write shadow tables, and say whether those of a backfill fit this process."""

import pyarrow as pa
import pyarrow.compute as pc

from txloom.config import names
from txloom.steps.backfill.scope import Scope, Target
from txloom.storage.delta import arrow_tables, small_tables
from txloom.storage.targets import shadow_tables


def is_small(scope: Scope) -> bool:
    """Say whether the live tables of a backfill have at most LOCAL_ROWS rows together."""
    return _live_rows(scope) <= arrow_tables.LOCAL_ROWS


def _live_rows(scope: Scope) -> int:
    """Return the number of rows of all live tables of a backfill."""
    total = 0
    for target in [*scope.histories, *scope.currents]:
        rows = small_tables.query(scope.paths.table(target.name), "select count(*) as n from t")
        total += rows[0]["n"] if rows else 0
    return total


def without_cleaned(target: Target, rows: pa.Table) -> pa.Table:
    """Return the rows of a history above the csn up to which it was cleaned."""
    csn = rows.column("_txloom_csn")
    return rows.filter(pc.greater(csn, pa.scalar(target.above))) if target.above else rows


def write_shadow(scope: Scope, target: Target, rows: pa.Table) -> None:
    """Replace the shadow of a table by rows, which get the target's schema."""
    shadow_tables.write(scope.paths.table(names.shadow_table(target.name)), arrow_tables.conform(rows, target.schema))


def shadow(scope: Scope, target: Target, where: str = "true") -> pa.Table:
    """Return the rebuilt rows of a table that fulfil an SQL condition, in the target's schema."""
    return shadow_tables.live(scope.paths.table(names.shadow_table(target.name)), target.schema, where)
