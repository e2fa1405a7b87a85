"""What is wrong with a spec, place by place, in our words.

`find_problems` turns pydantic's errors into problems that each carry a JSON pointer and, for a
misspelt name, the nearest known one.
"""

import re
import types
import typing
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from redkiln.nearest import find_nearest, suggest
from redkiln.spec.paths import list_inner_fields
from redkiln.spec.unknown_fields import explain_unknown_field

_NUMBER_WITH_COMMA = re.compile(r"(\d+),(\d+)")

_LENGTH = re.compile(r"\w+ should have (at \w+) (\d+) (items?) after validation, not (\d+)")
_TYPES = {
    "Input should be a valid integer": "must be a whole number",
    "Input should be a valid number": "must be a number",
    "Input should be a finite number": "must be a finite number",
    "Input should be a valid boolean": "must be true or false",
    "Input should be a valid string": "must be a text",
    "Input should be a valid list": "must be a list",
    "Input should be a valid array": "must be a list",
    "Input should be a valid dictionary": "must be an object with names and values",
    "Input should be an object": "must be an object with names and values",
    "Field required": "is required",
}
_OUR_WORDS = _TYPES | {
    "Input should be less than or equal to": "must be at most",
    "Input should be greater than or equal to": "must be at least",
    "Input should be": "must be",
}
"""What pydantic's messages start with, and what ours do; the first that matches counts."""

MOST_PROBLEMS = 100
"""Most problems of one document: looking for the nearest name of each takes a moment."""


@dataclass(frozen=True)
class SpecProblem:
    """One mistake in a spec, and where it is.

    Attributes:
        pointer: JSON pointer (RFC 6901) to the place; `""` is the whole spec.
        code: Machine-readable kind (`unknown_field`, `unknown_task`, else pydantic's type).
        message: The mistake, and the allowed values.
    """

    pointer: str
    code: str
    message: str


class SpecError(ValueError):
    """A spec that cannot be run; `problems` says why, place by place."""

    def __init__(self, problems: list[SpecProblem]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{p.pointer or '/'}: {p.message}" for p in problems))


def find_problems(
    errors: typing.Iterable[Any],
    model: type[BaseModel],
    *,
    others: typing.Mapping[str, type[BaseModel]] = types.MappingProxyType({}),
) -> list[SpecProblem]:
    """Convert pydantic's errors to problems in our words, one for each of at most 100 places.

    Args:
        errors: Errors as returned by `ValidationError.errors()`.
        model: Model that the document was validated against.
        others: Models of documents of other kinds, by kind, such as the specs of other tasks.
    """
    problems: dict[str, SpecProblem] = {}
    for item in errors:
        if len(problems) == MOST_PROBLEMS:
            break
        problem = _describe(item, model, others)
        known = problems.get(problem.pointer)
        if known is None:
            problems[problem.pointer] = problem
        elif problem.message not in known.message:
            joined = f"{known.message}, or: {problem.message}"
            problems[problem.pointer] = SpecProblem(problem.pointer, known.code, joined)
    return list(problems.values())


def plain_message(message: str) -> str:
    """Return a message of pydantic in our words, without those that it puts before our own."""
    message = message.removeprefix("Value error, ")
    if found := _LENGTH.fullmatch(message):
        return f"must have {found[1]} {int(found[2]):,} {found[3]}, not {int(found[4]):,}"
    for theirs, ours in _OUR_WORDS.items():
        if message.startswith(theirs):
            # pydantic adds how it tried to read a text: `, unable to parse string as a number`.
            rest = "" if theirs in _TYPES else message.removeprefix(theirs)
            return ours + rest
    return message


def _describe(
    item: Any, model: type[BaseModel], others: typing.Mapping[str, type[BaseModel]]
) -> SpecProblem:
    path, owner = _walk(model, item["loc"])
    pointer = "".join(f"/{escape_pointer(part)}" for part in path)
    match item["type"]:
        case "extra_forbidden":
            message = explain_unknown_field(path, owner=owner, model=model, others=others)
            return SpecProblem(pointer, "unknown_field", message)
        case "union_tag_invalid":
            tag = item["ctx"]["tag"]
            message = f"unknown name {tag!r}{suggest(tag, _expected(item))}"
            return SpecProblem(f"{pointer}/name", "unknown_name", message)
        case "model_type":
            fields = list_inner_fields(model, ".".join(map(str, path)))
            message = f"must be a group of fields: {', '.join(fields)}"
        case "literal_error":
            message = _explain_choice(item, path)
        case _:
            message = plain_message(item["msg"])
            if number := _NUMBER_WITH_COMMA.fullmatch(str(item["input"])):
                message += f"; write it with a point: {number[1]}.{number[2]}"
    return SpecProblem(pointer, item["type"], message)


def _explain_choice(item: Any, path: list[int | str]) -> str:
    """Return a message on a value that is not one of the allowed ones, which it lists."""
    near = find_nearest(str(item["input"]), _expected(item))
    if path[-1] == "name" and len(path) > 1:
        choices = item["ctx"]["expected"]
        return f"there is no {path[-2]} {item['input']!r}; choose {choices}{near}"
    return f"{plain_message(item['msg'])}{near}"


def _walk(
    spec_class: type[BaseModel], loc: tuple[int | str, ...]
) -> tuple[list[int | str], type[BaseModel] | None]:
    """Return the JSON path of a pydantic location, without union branches, and the last model.

    Between two keys of the document, a location also names the branch of a union (`adamw`, `int`).
    Only the fields of the model reached so far, and keys below a list or mapping, are kept.
    """
    path: list[int | str] = []
    owner: type[BaseModel] | None = spec_class
    container = False
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if container:
            path.append(part)
            container = False
        elif owner is not None and part in owner.model_fields:
            path.append(part)
            if not last:
                annotation = owner.model_fields[str(part)].annotation
                owner, container = _inner(annotation, loc[index + 1])
        elif owner is not None and last:
            path.append(part)  # an unknown field
    return path, owner


def _inner(annotation: Any, following: int | str) -> tuple[type[BaseModel] | None, bool]:
    """Return the model in an annotation that `following` leads into, and whether in a container."""
    origin = typing.get_origin(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    if origin in (list, dict, tuple):
        return None, True
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        for option in typing.get_args(annotation):
            inner, _ = _inner(option, following)
            name = inner.model_fields.get("name") if inner is not None else None
            if inner is not None and (name is None or name.default in (following, None)):
                return inner, False
        # pydantic names no branch for an optional list or mapping.
        said = [option for option in typing.get_args(annotation) if option is not types.NoneType]
        return None, len(said) == 1 and typing.get_origin(said[0]) in (list, dict)
    return None, False


def _expected(item: Any) -> list[str]:
    context = item.get("ctx", {})
    expected = context.get("expected_tags") or context.get("expected", "")
    names = expected.replace(" or ", ",").replace("'", "").split(",")
    return [name.strip() for name in names if name.strip()]


def escape_pointer(part: int | str) -> str:
    """Return a key or position as a part of a JSON pointer (RFC 6901)."""
    return str(part).replace("~", "~0").replace("/", "~1")
