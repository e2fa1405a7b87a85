"""Prints every message in the source, so that a person can read all of them in one go.

A message is a string of two words or more that is not a docstring: the text of an error, a line
that the command line prints, a cell of a report. The holes of an f-string are shown as they are
written: `{name}`. Also printed are the docstrings of commands, which typer shows as help.
"""

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("redkiln", "service", "worker", "native", "docker")
_PROSE = re.compile(r"[^\W\d_]{2,}[`'\")}\].,;:!?%]* +[`'\"({\[]*[^\W\d_]{2,}")
_NOT_PROSE = re.compile(
    r"^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|PRAGMA|BEGIN)\b"  # SQL
    r"|\(\?|\\[bsdw]"  # patterns
    r"|^(not )?bold \w+$"  # styles of rich
)
_REFERENCE = {"Field", "Query", "Path", "Header", "Body"}


@dataclass(frozen=True)
class Message:
    """A string that a person may read.

    Attributes:
        line: Line of the file, counted from 1.
        text: The string with the holes of an f-string as `{expression}`.
        is_reference: Whether it describes a field or a parameter of the API.
    """

    line: int
    text: str
    is_reference: bool = False


def find_messages(source: str) -> list[Message]:
    """Return the messages of a Python file in the order of their lines.

    Args:
        source: The file's text.
    """
    found = list(_walk(ast.parse(source), is_reference=False))
    return sorted(found, key=lambda message: message.line)


def _walk(node: ast.AST, *, is_reference: bool) -> Iterator[Message]:
    text = _read(node) if isinstance(node, ast.expr) else None
    if isinstance(node, ast.expr) and text is not None:
        if _PROSE.search(text) and not _NOT_PROSE.search(text):
            yield Message(node.lineno, " ".join(text.split()), is_reference)
        return
    if isinstance(node, ast.FunctionDef) and _is_command(node):
        yield from _walk_docstring(node)
    for child in ast.iter_child_nodes(node):
        if _is_docstring(child) or _is_pattern(child):
            continue
        yield from _walk(child, is_reference=is_reference or _describes_the_api(child))


def _walk_docstring(node: ast.FunctionDef) -> Iterator[Message]:
    text = ast.get_docstring(node)
    if text is not None:
        yield Message(node.body[0].lineno, " ".join(text.split()))


def _read(node: ast.expr) -> str | None:
    """Return a string expression's text; None for any other node."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_read_part(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [_read(node.left), _read(node.right)]
        if any(side is not None for side in sides):
            return "".join(
                f"{{{ast.unparse(part)}}}" if side is None else side
                for part, side in zip((node.left, node.right), sides, strict=True)
            )
    return None


def _read_part(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return f"{{{ast.unparse(part.value)}}}"
    return _read(part) or ""


def _is_docstring(node: ast.AST) -> bool:
    """Whether a node is a string that stands alone: a docstring or an attribute's description."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_pattern(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "text")


def _describes_the_api(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in _REFERENCE


def _is_command(node: ast.FunctionDef) -> bool:
    return any(
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr in ("command", "callback")
        for decorator in node.decorator_list
    )


def main() -> None:
    """Print the messages of the given files and folders, grouped by file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "paths", nargs="*", default=FOLDERS, help="files or folders of the checkout"
    )
    parser.add_argument(
        "--fields", action="store_true", help="also the API's descriptions of fields"
    )
    options = parser.parse_args()
    count = 0
    for path in _list_files(options.paths):
        messages = find_messages(path.read_text(encoding="utf-8"))
        shown = [message for message in messages if options.fields or not message.is_reference]
        if not shown:
            continue
        print()
        for message in shown:
            print(f"{path.relative_to(ROOT)}:{message.line}: {message.text}")
        count += len(shown)
    print(f"\n{count} messages")


def _list_files(paths: list[str]) -> Iterator[Path]:
    for path in paths:
        place = ROOT / path
        yield from sorted(place.rglob("*.py")) if place.is_dir() else [place]


if __name__ == "__main__":
    main()
