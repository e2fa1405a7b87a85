"""Explains mistakes in YAML: where they are, and what to write instead."""

import re

import yaml

_NUMBER_WITH_COMMA = re.compile(r"(\d+),(\d+)")
_REMEDIES = (
    (
        "mapping values are not allowed",
        (
            "the colon is not expected here; check the indentation of "
            "this line and of the one above, and put quotes around a value that contains `: `"
        ),
    ),
    (
        "expected <block end>",
        ("the indentation fits no line above; give all fields of a group the same indentation"),
    ),
    ("character '\\t'", "the line is indented with a tab; use spaces"),
    ("expected ',' or ']'", "a list is not closed above or here; add the missing `]` or comma"),
    ("expected ',' or '}'", "a group is not closed above or here; add the missing `}` or comma"),
    ("unexpected end of stream", "the file ends within quotes; add the missing quote"),
    ("cannot start any token", "a value cannot begin with this character; put the value in quotes"),
    ("could not find expected ':'", "this line is not a field; write it as `field: value`"),
)
"""What the parser says, and what to do about it."""


def explain_mistake(error: yaml.MarkedYAMLError, text: str, *, name: str) -> str:
    """Return the place of a mistake, what to do about it, and the line.

    Args:
        error: Error of the parser.
        text: Content of the file.
        name: Name of the file.
    """
    mark, problem = error.problem_mark, error.problem or "this is not YAML"
    if mark is None:
        return f"{name}: {problem}"
    lines = text.splitlines()
    line = lines[mark.line].rstrip() if mark.line < len(lines) else ""
    remedy = next((remedy for words, remedy in _REMEDIES if words in problem), problem)
    if problem.endswith("is not a string") and (number := _NUMBER_WITH_COMMA.search(line)):
        remedy = f"write the number {number[1]}.{number[2]} with a point, not with a comma"
    place = f"{name}:{mark.line + 1}:{mark.column + 1}"
    return f"{place}: {remedy}\n  {line}" if line else f"{place}: {remedy}"
