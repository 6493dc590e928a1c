"""What a pipeline declares, as frozen models: fields stand in the order in which a user thinks of them."""

from datetime import date, timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from txloom.config.types import ColumnType


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Files(Model):
    path: str
    settle: timedelta = timedelta(seconds=60)


class Source(Model):
    format: Literal["goldengate"]
    files: Files
    transaction_topic: str


class Completeness(Model):
    rule: Literal["counts"]
    patience: timedelta


class Column(Model):
    name: str
    type: ColumnType
    source: str


class Table(Model):
    name: str
    source: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    version: str | None = None
    undeclared_columns: Literal["ignore", "quarantine"] = "ignore"

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)


class Child(Model):
    table: str
    as_: str
    relation: Literal["one", "many"]
    parent_key: tuple[str, ...]


class Aggregate(Model):
    name: str
    history: str
    current: str
    root: str
    children: tuple[Child, ...]
    zorder: tuple[str, ...] = ()


class Mirror(Model):
    table: str
    current: str
    history: str
    zorder: tuple[str, ...] = ()
    partition_by: str | None = None


class Targets(Model):
    aggregates: tuple[Aggregate, ...] = ()
    mirrors: tuple[Mirror, ...] = ()


class Pipeline(Model):
    name: str
    description: str = ""
    owner: str = "data-platform"
    schedule: str | None = None
    start_date: date = date(2025, 1, 1)
    source: Source
    completeness: Completeness
    tables: tuple[Table, ...]
    targets: Targets
    expectations: tuple[object, ...] = Field(default=())
    maintenance: object = None

    def table(self, name: str) -> Table:
        return next(t for t in self.tables if t.name == name)
