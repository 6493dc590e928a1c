"""Declarations of pipelines."""

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from txloom.config.models import Aggregate, Child, Column, Completeness, Files, Mirror, Pipeline, Source, Table, Targets
from txloom.config.types import parse

_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _duration(text: str) -> timedelta:
    return timedelta(seconds=int(text[:-1]) * _UNIT[text[-1]])


def _env(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", lambda m: os.environ.get(m[1], m[2] or ""), value)
    if isinstance(value, dict):
        return {k: _env(v) for k, v in value.items()}
    return [_env(v) for v in value] if isinstance(value, list) else value


def load(path: Path | str) -> Pipeline:
    y = _env(yaml.safe_load(Path(path).read_text()))
    tables = tuple(
        Table(name=t["name"], source=t["source"], key=tuple(t["key"]), version=t.get("version"),
              columns=tuple(Column(name=n, type=parse(x), source=n) for n, x in t["columns"].items()))
        for t in y["tables"]
    )
    aggregates = tuple(
        Aggregate(name=a["name"], history=a.get("history", a["name"] + "_stream"), current=a.get("current", a["name"] + "_current"), root=a["root"],
                  children=tuple(Child(table=c["table"], as_=c.get("as", c["table"]), relation=c["relation"], parent_key=tuple(c["parent_key"])) for c in a["children"]))
        for a in y["targets"].get("aggregates", [])
    )
    mirrors = y["targets"].get("mirrors", [])
    if mirrors == ["*"]:
        mirrors = [t.name for t in tables]
    return Pipeline(
        name=y["name"], schedule=y.get("schedule"),
        source=Source(format="goldengate", files=Files(path=y["source"]["files"]["path"], settle=_duration(y["source"]["files"].get("settle", "60s"))), transaction_topic=y["source"]["transaction_topic"]),
        completeness=Completeness(rule="counts", patience=_duration(y["completeness"]["patience"])), tables=tables,
        targets=Targets(aggregates=aggregates, mirrors=tuple(Mirror(table=m, current=m, history=m + "_changes") for m in mirrors)),
    )


def find(name: str, folder: Path | None = None) -> Pipeline:
    p = Path(name)
    return load(p if p.suffix else Path(__file__).resolve().parents[2] / "pipelines" / f"{name}.yaml")
