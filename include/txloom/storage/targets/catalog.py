"""Tables in a catalog of Spark (Hive's, Unity's, or any other that knows tables of Delta at a place)."""

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


def location_of(spark: SparkSession, schema: str, name: str) -> str | None:
    """Return where a table of a schema lies; None where the schema has no table of this name.

    schema: with its catalog or without, as `unity.lake` or `lake`.
    """
    if not spark.catalog.tableExists(_named(schema, name)):
        return None
    rows = spark.sql(f"describe table extended {_named(schema, name)}").collect()
    places: list[str] = [row["data_type"] for row in rows if row["col_name"] == "Location"]
    return places[0] if places else ""


def register(spark: SparkSession, schema: str, name: str, path: str) -> None:
    """Add a table to a schema, which is made where there is none; whoever drops it there leaves its files alone."""
    if not _has_schema(spark, schema):
        spark.sql(f"create schema if not exists {_named(schema)}")
    location = path.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"create table {_named(schema, name)} using delta location '{location}'")


def _has_schema(spark: SparkSession, schema: str) -> bool:
    try:
        spark.sql(f"describe schema {_named(schema)}").collect()
    except AnalysisException:
        return False
    return True


def _named(schema: str, *names: str) -> str:
    """Return a name as SQL writes it.

    >>> _named("unity.lake", "orders")
    '`unity`.`lake`.`orders`'
    """
    return ".".join(f"`{part}`" for part in (*schema.split("."), *names))
