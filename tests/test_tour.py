"""The excerpts of docs/tour.md are the code, word for word."""

import ast
import re
import textwrap
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n# (\S+): (\S+)\n(.*?)^```$", re.M | re.S)
EXCERPTS = BLOCK.findall((ROOT / "docs/tour.md").read_text())


def find_definition(path, qualified_name):
    """The source of a function of a file, `Class.method` for a method."""
    text = (ROOT / path).read_text()
    node = ast.parse(text)
    for name in qualified_name.split("."):
        found = [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.name == name
        ]
        assert found, f"{path} has no {qualified_name}; name the function that has the excerpt"
        node = found[0]
    return ast.get_source_segment(text, node, padded=True).splitlines()


def split_pieces(excerpt):
    """The runs of lines between the lines that are only `...`."""
    lines = excerpt.splitlines()
    runs = groupby(lines, key=lambda line: line.strip() == "...")
    return [list(run) for is_gap, run in runs if not is_gap]


def dedent(lines):
    return textwrap.dedent("\n".join(lines))


def find_drifted(excerpt, source):
    """The first piece that does not occur in the source after those before it; None if all do."""
    at = 0
    for piece in split_pieces(excerpt):
        starts = range(at, len(source) - len(piece) + 1)
        same = [i for i in starts if dedent(source[i : i + len(piece)]) == dedent(piece)]
        if not same:
            return "\n".join(piece)
        at = same[0] + len(piece)
    return None


@pytest.mark.parametrize(("path", "function", "excerpt"), EXCERPTS, ids=lambda value: value[:40])
def test_an_excerpt_is_the_code(path, function, excerpt):
    drifted = find_drifted(excerpt, find_definition(path, function))
    assert drifted is None, (
        f"docs/tour.md shows lines of {path}: {function} that are not there (any more, or not in "
        f"this order); copy them from the code again:\n{drifted}"
    )
    assert 5 <= len(excerpt.splitlines()) <= 15


def test_every_code_block_names_its_file_and_function():
    assert len(EXCERPTS) >= 12
    assert (ROOT / "docs/tour.md").read_text().count("```python") == len(EXCERPTS)


def test_a_drifted_excerpt_is_found():
    source = ["def f():", "    a = 1", "    b = 2", "    c = 3"]
    assert find_drifted("    a = 1\n    ...\n    c = 3\n", source) is None
    assert find_drifted("a = 1\nb = 2\n", source) is None
    assert find_drifted("    a = 1\n    c = 3\n", source) == "    a = 1\n    c = 3"
    assert find_drifted("    c = 3\n    ...\n    a = 1\n", source) == "    a = 1"
