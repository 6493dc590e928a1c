"""The unit of time that a Debezium connector counts in, for messages without a schema.

The unit of a column follows from the connector's time.precision.mode and, where that is adaptive, from the digits of a
second that the column has in its database. A message without a schema does not have those: they are assumed to be the
database's default, and numbers that more likely count another unit are refused.
"""

from typing import Literal, NamedTuple

TimeUnit = Literal["adaptive", "millis", "nanos", "connect"]
Database = Literal["postgresql", "mysql", "mariadb", "oracle", "sqlserver"]
PrecisionMode = Literal["adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"]

MILLIS, MICROS, NANOS = 10**3, 10**6, 10**9


class Units(NamedTuple):
    """How many units to a second timestamps and times count; coarser, finer: columns may count such units instead."""

    timestamp: int
    time: int
    coarser: tuple[str, ...] = ()
    """The kinds of columns that may count a coarser unit."""
    finer: bool = False

    def reads_as(self, earlier: "Units") -> bool:
        """Return whether every number that was read by earlier units is read as the same value.

        >>> PLAIN = Units(MICROS, MICROS)
        >>> PLAIN.reads_as(_ADAPTIVE["postgresql"]), _ADAPTIVE["postgresql"].reads_as(PLAIN)
        (True, False)
        """
        is_same = (self.timestamp, self.time) == (earlier.timestamp, earlier.time)
        return is_same and {*self.coarser} <= {*earlier.coarser} and self.finer <= earlier.finer


_DECLARED = {"adaptive": MICROS, "millis": MILLIS, "nanos": NANOS, "connect": MILLIS}
_FIXED = {"connect": MILLIS, "microseconds": MICROS, "nanoseconds": NANOS}
_MOMENTS = ("timestamp", "timestamptz")
_ADAPTIVE = {
    "postgresql": Units(MICROS, MICROS, coarser=(*_MOMENTS, "time")),
    "mysql": Units(MILLIS, MILLIS, finer=True),
    "mariadb": Units(MILLIS, MILLIS, finer=True),
    "oracle": Units(MICROS, MICROS, coarser=_MOMENTS, finer=True),
    "sqlserver": Units(NANOS, NANOS, coarser=(*_MOMENTS, "time")),
}
"""Units by the default digits of a timestamp and a time: 6, 0 (MySQL's and MariaDB's DATETIME), 6, 7 (datetime2)."""


def units_of(unit: TimeUnit | None, database: Database | None, mode: PrecisionMode | None) -> Units | None:
    """Return the units that a source's options decide; None where they do not decide them.

    >>> units_of(None, "mysql", None)
    Units(timestamp=1000, time=1000000, coarser=(), finer=True)
    >>> units_of(None, "mysql", "connect") == Units(MILLIS, MILLIS), units_of(None, None, None)
    (True, None)
    """
    if unit is not None:
        return Units(_DECLARED[unit], _DECLARED[unit])
    if mode in _FIXED:
        return Units(_FIXED[mode], _FIXED[mode])
    if database is None or mode == "isostring":
        return None
    units = _ADAPTIVE[database]
    if mode == "adaptive_time_microseconds" or (mode is None and database in ("mysql", "mariadb")):
        return units._replace(time=MICROS)
    return units
