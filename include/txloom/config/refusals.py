"""What the models refuse, told as problems: at the item's line and path, with what the model expected there."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic_core import ErrorDetails

from txloom.config.document import Item, inner
from txloom.config.models import Model, Pipeline
from txloom.config.problems import Problem, Unfit, did_you_mean, listed

Location = tuple[str | int, ...]


def refusals(errors: list[ErrorDetails], root: Item, file: str) -> Iterator[Problem]:
    """Yield a problem for every error of a validation."""
    for error in errors:
        if error["type"] == "default_factory_not_called":
            continue
        *before, last = error["loc"] or ("",)
        item = _item(root, tuple(before))
        if error["type"] == "missing":
            expected = _expected(tuple(before), str(last))
            yield Problem(file, item.line, inner(item.path, str(last)), "nothing", expected)
        elif error["type"] in ("union_tag_not_found", "union_tag_invalid"):
            yield _kind(error, _item(root, error["loc"]), file)
        elif error["type"] == "extra_forbidden":
            yield _unknown(item, str(last), tuple(before), file)
        else:
            item = _item(root, error["loc"])
            expected, hint = _wanted(error, item)
            yield Problem(file, item.line, item.path, item.shown, expected, hint)


def _item(root: Item, location: Location) -> Item:
    """Walk as far as a location leads in the file; tags of unions and fields that a mapping's key stands for lead nowhere."""
    item = root
    for part in location:
        item = item.child(part) or item
    return item


def _models(location: Location) -> list[type[Model]]:
    """Return the models that may stand at a location."""
    found: list[type[Model]] = [Pipeline]
    for part in location:
        if isinstance(part, int):
            continue
        tagged = [model for model in found if part in get_args(_annotation(model, "kind"))]
        found = tagged or [inside for model in found for inside in _inside(_annotation(model, part))]
    return found


def _annotation(model: type[Model], key: str) -> Any:
    return next((field.annotation for name, field in model.model_fields.items() if key in (name, field.alias)), None)


def _inside(annotation: Any) -> list[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _inside(argument)]


def _keys(location: Location) -> list[str]:
    return [field.alias or name for model in _models(location) for name, field in model.model_fields.items()]


def _expected(location: Location, key: str) -> str:
    for model in _models(location):
        for name, field in model.model_fields.items():
            if key in (name, field.alias) and field.description:
                return field.description[0].lower() + field.description[1:]
    return "a value"


def _unknown(item: Item, key: str, location: Location, file: str) -> Problem:
    found = item.get(key) or item
    keys = [name for name in _keys(location) if not _is_column(location) or name != "name"]
    missing = [name for name in keys if item.get(name) is None]
    hint = did_you_mean(key, missing) or did_you_mean(key, keys)
    return Problem(file, found.line, inner(item.path, key), "an unknown key", listed(keys), hint)


def _is_column(location: Location) -> bool:
    return len(location) >= 2 and location[-2] == "columns"


def _kind(error: ErrorDetails, item: Item, file: str) -> Problem:
    kinds = [model for model in _models(error["loc"])]
    tags = [str(get_args(_annotation(model, "kind"))[0]) for model in kinds]
    found = item.get("kind")
    if found is None:
        return Problem(file, item.line, inner(item.path, "kind"), "nothing", listed(tags))
    return Problem(file, found.line, found.path, found.shown, listed(tags), _nearest(found, tags))


def _nearest(item: Item, names: list[str]) -> str:
    return did_you_mean(item.value, names) if isinstance(item.value, str) and item.written is None else ""


def _wanted(error: ErrorDetails, item: Item) -> tuple[str, str]:
    """Return what was expected where a value does not fit, and a hint."""
    context = error.get("ctx", {})
    unfit = context.get("error")
    if isinstance(unfit, Unfit):
        return unfit.expected, unfit.hint if item.written is None else ""
    match error["type"]:
        case "model_type" | "model_attributes_type":
            return f"a mapping with {listed(_keys(error['loc']))}", ""
        case "tuple_type":
            return _list_or_mapping(item, error["loc"])
        case "literal_error":
            names = [part.strip(" '") for part in str(context["expected"]).replace(" or ", ",").split(",")]
            return listed(names), _nearest(item, names)
        case "too_short":
            return "at least one entry", ""
    return error["msg"], ""


def _list_or_mapping(item: Item, location: Location) -> tuple[str, str]:
    if location[-1] == "columns":
        return "a mapping of names to types, such as {order_id: long}", ""
    hint = f"Write [{item.value}]." if isinstance(item.value, str) and item.written is None else ""
    return "a list", hint
