"""Reads texts, JSON and YAML of users within limits, and says where they are wrong."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from service.datasets.inspect.images import BadImage
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.source import Source

MAX_SMALL_BYTES = 16 * 1024**2
"""Maximum size of the annotations of one image, and of a list of images."""
MAX_YAML_BYTES = 256 * 1024
_MAX_YAML_DEPTH = 16
_BOM = b"\xef\xbb\xbf"


class BadText(Exception):  # noqa: N818  named after what is wrong
    """A file that cannot be read; `place` is the file with a line or JSON pointer."""

    def __init__(self, message: str, place: str) -> None:
        self.message = message
        self.place = place
        super().__init__(message)


def read_bytes(source: Source, entry: Entry, *, max_bytes: int, limits: Limits) -> bytes:
    """Return a file's content without a byte order mark.

    Raises:
        BadText: It cannot be read, or is larger.
    """
    if entry.size_bytes > max_bytes:
        raise BadText(f"is larger than {max_bytes} bytes; remove what is not needed", entry.path)
    try:
        content = source.read(entry, limits=replace(limits, max_file_bytes=max_bytes))
    except BadImage as bad:
        raise BadText(bad.message, entry.path) from None
    return content.removeprefix(_BOM)


def read_text(source: Source, entry: Entry, *, limits: Limits) -> str:
    """Return a small file's content as text.

    Raises:
        BadText: It cannot be read, is larger than 16 MiB, or is not UTF-8.
    """
    content = read_bytes(source, entry, max_bytes=MAX_SMALL_BYTES, limits=limits)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BadText("is not UTF-8; save it as UTF-8", entry.path) from None


def parse_json(content: bytes, shape: TypeAdapter[Any], path: str) -> Any:
    """Return JSON in a shape; fields that the shape does not name are skipped, not kept.

    Raises:
        BadText: It is not JSON, is nested too deeply, or does not have the shape.
    """
    try:
        return shape.validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise BadText(f"is not valid JSON: {first['ctx']['error']}", path) from None
        pointer = "".join(f"/{part}" for part in first["loc"])
        raise BadText(_describe(first["msg"]), f"{path}#{pointer}") from None


def _describe(message: str) -> str:
    """Return pydantic's words as the rest of a sentence that begins with a place."""
    return message.replace("Input should be", "should be").replace("Field required", "is missing")


def parse_yaml(content: bytes, path: str) -> Any:
    """Return small YAML as plain values; aliases are refused, which could unfold without end.

    Raises:
        BadText: It is not YAML of this kind.
    """
    try:
        text = content.decode()
        _check_events(text, path)
        return yaml.safe_load(text)
    except UnicodeDecodeError:
        raise BadText("is not UTF-8; save it as UTF-8", path) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = path if mark is None else f"{path}, line {mark.line + 1}"
        raise BadText(f"is not valid YAML: {error.problem}", place) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadText(f"is not valid YAML: {type(error).__name__}", path) from None


def _check_events(text: str, path: str) -> None:
    """Refuse aliases, and deep nesting, for which the scanner takes quadratic time."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise BadText("has an alias (*); write the value itself", path)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_YAML_DEPTH:
            raise BadText(f"is nested deeper than {_MAX_YAML_DEPTH} lists", path)


def split_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of each line that has some, with the line's number from 1."""
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if words := line.split():
            yield number, words
