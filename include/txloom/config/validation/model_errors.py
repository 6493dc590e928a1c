"""Turn pydantic's errors into problems with the item's line and path, and what the model expected there."""

import json
from typing import Any, get_args

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from txloom.config.models.base import Model
from txloom.config.models.pipeline import Pipeline
from txloom.config.problems import LONGEST_TEXT, Problem, Unfit, did_you_mean, listed, nearest, show
from txloom.config.yaml.document import Item, inner

Location = tuple[str | int, ...]
EXPECTED = {"tuple_type": "a list", "dict_type": "a mapping", "too_short": "at least one entry"}
"""What was expected of a value, by the type of pydantic's error; for other types pydantic's message says it."""


def refusals(errors: list[ErrorDetails], root: Item, file: str) -> list[Problem]:
    """Return a problem for every mistake; a missing key and a similar unknown key are one mistake."""
    missing: dict[str, Problem] = {}
    others: list[Problem] = []
    for error in errors:
        *before, last = error["loc"] or ("",)
        item = _item(root, tuple(before))
        if error["type"] == "missing":
            path = inner(item.path, str(last))
            missing[path] = Problem(file, item.line, path, "nothing", _expected(tuple(before), str(last)))
        elif error["type"] in ("union_tag_not_found", "union_tag_invalid"):
            others.append(_kind(error, _item(root, error["loc"]), file))
        elif error["type"] not in ("extra_forbidden", "default_factory_not_called"):
            item = _item(root, error["loc"])
            value = _column_name(root, error["loc"]) or item.shown
            others.append(Problem(file, item.line, item.path, value, *_expectation(error, item)))
    for error in errors:
        if error["type"] == "extra_forbidden":
            *before, last = error["loc"]
            others.append(_unknown(_item(root, tuple(before)), str(last), tuple(before), file, missing))
    return [*missing.values(), *others]


def _item(root: Item, location: Location) -> Item:
    """Return the item at a location; parts that the file does not have, such as tags of unions, are skipped."""
    item = root
    for part in location:
        item = item.child(part) or item
    return item


def _models(location: Location) -> list[type[Model]]:
    """Return the models that may stand at a location."""
    models: list[type[Model]] = [Pipeline]
    for part in location:
        if isinstance(part, int):
            continue
        tagged = [model for model in models if part in get_args(_annotation(model, "kind"))]
        models = tagged or [inside for model in models for inside in _inside(_annotation(model, part))]
    return models


def _annotation(model: type[Model], key: str) -> Any:
    return next((field.annotation for name, field in model.model_fields.items() if key in (name, field.alias)), None)


def _inside(annotation: Any) -> list[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _inside(argument)]


def _fields(location: Location) -> dict[str, FieldInfo]:
    """Return the fields of the model at a location by their keys; of several models, those that all of them have."""
    first, *others = [
        {field.alias or name: field for name, field in model.model_fields.items()} for model in _models(location)
    ]
    return {key: field for key, field in first.items() if all(key in fields for fields in others)}


def _expected(location: Location, key: str) -> str:
    """Return what was expected of a missing key: its members if it is a mapping, else its description."""
    field = _fields(location)[key]
    if isinstance(field.annotation, type) and issubclass(field.annotation, Model):
        return f"a mapping with {listed(_fields((*location, key)), 'and')}"
    described = str(field.description)
    return described[0].lower() + described[1:]


def _unknown(item: Item, key: str, location: Location, file: str, missing: dict[str, Problem]) -> Problem:
    unknown = item.get(key) or item
    keys = [name for name in _fields(location) if name != "name" or not _is_column(location)]
    free = [name for name in keys if item.get(name) is None]
    near = nearest(key, free)
    missing.pop(inner(item.path, near or ""), None)
    hint = did_you_mean(key, free) or did_you_mean(key, keys)
    return Problem(file, unknown.line, inner(item.path, key), "an unknown key", listed(keys), hint)


def _is_column(location: Location) -> bool:
    return len(location) >= 2 and location[-2] == "columns"


def _column_name(root: Item, location: Location) -> str | None:
    """Return a column's name, which is a key in the file and a value in the model."""
    *columns, index, last = location if len(location) > 2 else (0, 0, 0)
    if last != "name" or not _is_column((*columns, index)) or not isinstance(index, int):
        return None
    return show(list(_item(root, tuple(columns)).value)[index])


def _kind(error: ErrorDetails, item: Item, file: str) -> Problem:
    tags = [str(get_args(_annotation(model, "kind"))[0]) for model in _models(error["loc"])]
    kind = item.get("kind")
    if kind is None:
        return Problem(file, item.line, inner(item.path, "kind"), "nothing", listed(tags))
    return Problem(file, kind.line, kind.path, kind.shown, listed(tags), _nearest(kind, tags))


def _nearest(item: Item, names: list[str]) -> str:
    return did_you_mean(item.value, names) if isinstance(item.value, str) and item.written is None else ""


def _expectation(error: ErrorDetails, item: Item) -> tuple[str, str]:
    """Return what was expected of a value, and a hint; a value from the environment gets none, as it may be secret."""
    context = error.get("ctx", {})
    unfit = context.get("error")
    if isinstance(unfit, Unfit):
        return unfit.expected, unfit.hint if item.written is None else ""
    if error["type"] in ("model_type", "model_attributes_type"):
        return f"a mapping with {listed(_fields(error['loc']), 'and')}", ""
    if error["type"] == "literal_error":
        names = [part.strip(" '") for part in str(context["expected"]).replace(" or ", ",").split(",")]
        return listed(names), _nearest(item, names)
    hint = _as_list(item) if error["type"] == "tuple_type" else ""
    return EXPECTED.get(error["type"], error["msg"]), hint


def _as_list(item: Item) -> str:
    if not isinstance(item.value, str) or not item.value or item.written is not None or len(item.value) > LONGEST_TEXT:
        return ""
    return f"Write [{item.value}]." if item.value.isidentifier() else f"Write [{json.dumps(item.value)}]."
