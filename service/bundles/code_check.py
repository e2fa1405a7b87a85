"""The checking process: reads the code of a user's own network, and prints what is wrong with it.

It parses the file and runs nothing of it. Its arguments are the bundle's path and the process id of
its parent. It reads the model of the spec as JSON, and prints a list of problems as JSON.
"""

import ast
import json
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from redkiln.nearest import suggest
from redkiln.spec.own_code import GIVEN
from service.datasets.inspect.limits import GIB, MIB, Limits, confine

MOST_BYTES = 4 * MIB
"""Largest Python file."""
LIMITS = Limits(memory_bytes=GIB, table_memory_bytes=GIB, cpu_seconds=20, output_bytes=0)

Problem = tuple[str, str]
"""Pointer into the spec, and message."""


def find_problems(bundle: str, model: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the code that a model names, as far as reading it shows."""
    file = str(model["file"])
    try:
        with tarfile.open(bundle) as archive:
            files = {str(PurePosixPath(one.name)): one for one in archive if one.isfile()}
            weights = model.get("pretrained")
            if isinstance(weights, str) and not weights.startswith("job:") and weights not in files:
                return [("/model/pretrained", _missing(weights, files))]
            if file not in files:
                return [("/model/file", _missing(file, files))]
            content = archive.extractfile(files[file])
            text = b"" if content is None else content.read(MOST_BYTES + 1)
    except tarfile.TarError as error:
        return [("/model/bundle", f"the code bundle is not a tar: {error}")]
    if len(text) > MOST_BYTES:
        return [("/model/file", f"{file} is larger than {MOST_BYTES // MIB} MiB")]
    try:
        tree = ast.parse(text, filename=file)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{file}, line {line}" if line else file
        return [("/model/file", f"{where}: {getattr(error, 'msg', error)}")]
    return list(_check_names(tree, model, file))


def _missing(name: str, files: Mapping[str, object]) -> str:
    alike = [one for one in files if PurePosixPath(one).suffix == PurePosixPath(name).suffix]
    return f"the sent folder has no file {name!r}{suggest(name, alike[:100])}"


def _check_names(tree: ast.Module, model: Mapping[str, Any], file: str) -> Iterator[Problem]:
    bound = set(_list_bound(tree.body))
    if "*" in bound:
        return  # names of another module; the worker finds them
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    name = str(model["class"])
    if name not in bound:
        message = f"{file} has no class {name!r}{suggest(name, sorted(classes))}"
        yield "/model/class", message
    for field in ("loss", "preprocess"):
        wanted = model.get(field)
        if isinstance(wanted, str) and wanted not in bound:
            known = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
            yield f"/model/{field}", f"{file} has no function {wanted!r}{suggest(wanted, known)}"
    if name in classes:
        yield from _check_arguments(classes[name], model, file)


def _check_arguments(node: ast.ClassDef, model: Mapping[str, Any], file: str) -> Iterator[Problem]:
    built = next(
        (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"),
        None,
    )
    if built is None or built.args.vararg is not None:
        return
    given = model.get("arguments") or {}
    positional = [*built.args.posonlyargs, *built.args.args][1:]
    names = [one.arg for one in (*positional, *built.args.kwonlyargs)]
    place = f"{file}, line {built.lineno}"
    if built.args.kwarg is None:
        for name in given:
            if name not in names:
                message = f"{place}: {node.name} has no argument {name!r}{suggest(name, names)}"
                yield f"/model/arguments/{name}", message
    required = names[: len(positional) - len(built.args.defaults)]
    pairs = zip(built.args.kwonlyargs, built.args.kw_defaults, strict=True)
    required += [one.arg for one, default in pairs if default is None]
    for name in required:
        if name not in given and name not in GIVEN:
            message = f"{place}: {node.name} needs the argument {name!r}; set it in arguments"
            yield "/model/arguments", message


def _list_bound(body: list[ast.stmt]) -> Iterator[str]:
    """Return the names that a module's statements bind; `*` for a star import."""
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
        else:
            stored = (one for one in ast.walk(node) if isinstance(one, ast.Name))
            yield from (one.id for one in stored if isinstance(one.ctx, ast.Store))
            inner = [one for one in ast.walk(node) if isinstance(one, ast.stmt) and one is not node]
            yield from _list_bound(inner) if inner else ()


def main() -> None:
    """Check the code of the bundle at the first argument."""
    confine(LIMITS, parent_pid=int(sys.argv[2]))
    sys.stdout.write(json.dumps(find_problems(sys.argv[1], json.load(sys.stdin))))


if __name__ == "__main__":
    main()
