"""Spec files: YAML or JSON read with line numbers, and `--set key=value` on top.

YAML is read with the core schema of version 1.2, so that `1e-3` is a number and `no` and
`2026-01-01` are strings. A duplicate key is an error.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from redkiln.cli.arguments.yaml_mistakes import explain_mistake
from redkiln.cli.problems import UsageError
from redkiln.spec.paths import list_paths
from redkiln.tasks import TASKS


@dataclass
class SpecSource:
    """A spec as the user wrote it, and the place of each of its parts.

    Attributes:
        value: Decoded document.
        places: JSON pointer -> `flowers.yaml:7` or `--set training.epochs=5`.
    """

    value: dict[str, Any]
    places: dict[str, str] = field(default_factory=dict)

    def locate(self, pointer: str) -> str | None:
        """Return the place of a part, or that of its nearest parent if the part is missing."""
        while pointer:
            if pointer in self.places:
                return self.places[pointer]
            pointer = pointer.rpartition("/")[0]
        return None

    def put(self, path: str, value: Any, *, place: str) -> None:
        """Set the field at a dotted path.

        Args:
            path: Dotted path, such as `training.epochs`.
            value: Value of the field.
            place: Place of the value in the user's input, for messages.

        Raises:
            UsageError: One of the path's keys holds a plain value.
        """
        parts = path.split(".")
        target = self.value
        for part in parts[:-1]:
            inner = target.get(part)
            if isinstance(inner, str):  # the short form of a group with a name
                inner = {"name": inner}
            elif inner is None:
                inner = {}
            elif not isinstance(inner, dict):
                raise UsageError(f"{place}: {part!r} is a value, not a group of fields.")
            target[part] = dict(inner)
            target = target[part]
        target[parts[-1]] = value
        self.places["".join(f"/{_escape(part)}" for part in parts)] = place

    def assign(self, assignments: Iterable[str]) -> None:
        """Apply `a.b=value` assignments; the values are read as YAML.

        Raises:
            UsageError: An assignment has another form, or one of its keys holds a plain value.
        """
        for assignment in assignments:
            _assign(self, assignment)


def load_spec_file(path: Path) -> SpecSource:
    """Read a spec from a YAML or JSON file.

    Raises:
        UsageError: The file cannot be read, or is not a YAML or JSON mapping; with the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"{path} cannot be read: {reason}") from error
    return parse_spec_text(text, name=path.name)


def parse_spec_text(text: str, *, name: str) -> SpecSource:
    """Read a spec from text.

    Args:
        text: YAML or JSON.
        name: Name of the file, for messages.

    Raises:
        UsageError: The text is not a YAML or JSON mapping; with the line.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        value = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        raise UsageError(explain_mistake(error, text, name=name)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{name}: this is not YAML: {error}") from error
    finally:
        loader.dispose()
    if not isinstance(value, dict):
        raise UsageError(f"{name}: a spec must be a mapping of fields, such as `dataset: flowers`.")
    lines = _lines(node, "", set())
    return SpecSource(value, {pointer: f"{name}:{line}" for pointer, line in lines})


class _Loader(yaml.SafeLoader):
    """Safe YAML loader with the scalars of version 1.2."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own way to be configured


_SCALARS = {
    "null": r"^(?:~|null|Null|NULL|)$",
    "bool": r"^(?:true|True|TRUE|false|False|FALSE)$",
    "int": r"^[-+]?[0-9]+$",
    "float": r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$",
}
for _name, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(_pattern), None)


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node))


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node))


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is not a string", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"{key!r} is given twice", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


def _lines(node: yaml.Node | None, pointer: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    if node is None or id(node) in seen:  # an alias; its lines are those of its anchor
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            inner = f"{pointer}/{_escape(str(key_node.value))}"
            yield inner, key_node.start_mark.line + 1
            yield from _lines(value_node, inner, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield f"{pointer}/{index}", item.start_mark.line + 1
            yield from _lines(item, f"{pointer}/{index}", seen)


def _assign(source: SpecSource, assignment: str) -> None:
    key, equals, text = assignment.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise UsageError(f"--set {assignment}: write it as key=value, e.g. resources.device=cpu.")
    _check_root(parts, assignment)
    value = _value(text, assignment)
    source.put(".".join(parts), value, place=f"--set {assignment}")


def _value(text: str, assignment: str) -> Any:
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"--set {assignment}: the value is not valid YAML.") from error
    finally:
        loader.dispose()


def _check_root(parts: list[str], assignment: str) -> None:
    """Suggest the full path for `epochs=3`, a common first try; the service checks the rest."""
    if parts[0] in _paths_by_depth(1):
        return
    near = [path for path in _all_paths() if path.split(".")[-len(parts) :] == parts]
    if not near:
        near = difflib.get_close_matches(".".join(parts), _all_paths(), n=1, cutoff=0.7)
    if near:
        _, _, text = assignment.partition("=")
        choices = " or ".join(f"--set {path}={text}" for path in near[:3])
        raise UsageError(f"--set {assignment}: there is no such field. Did you mean {choices}?")


def _paths_by_depth(depth: int) -> set[str]:
    return {path for path in _all_paths() if path.count(".") < depth}


def _all_paths() -> list[str]:
    return sorted({path for spec_class in TASKS.values() for path in list_paths(spec_class)})


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
