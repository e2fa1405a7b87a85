"""All fields of a spec by their dotted paths, such as `training.optimizer.lr`."""

import functools
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel


@functools.cache
def list_paths(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the dotted path of each field of a model and of the models in it, sorted."""
    schema = model.model_json_schema()
    return tuple(sorted(set(_collect(schema, schema.get("$defs", {}), ""))))


def list_inner_fields(model: type[BaseModel], place: str) -> list[str]:
    """Return the names of the fields directly in the group at a dotted path."""
    prefix = f"{place}."
    below = [path.removeprefix(prefix) for path in list_paths(model) if path.startswith(prefix)]
    return [path for path in below if "." not in path]


def _collect(schema: Any, definitions: Any, prefix: str) -> Iterator[str]:
    for option in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if "$ref" in option:
            option = definitions[option["$ref"].rpartition("/")[2]]
        for name, inner in option.get("properties", {}).items():
            yield f"{prefix}{name}"
            yield from _collect(inner, definitions, f"{prefix}{name}.")
