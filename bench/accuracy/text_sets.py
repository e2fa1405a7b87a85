"""Texts that need no download: sentences of the documentation in Python's standard library."""

import ast
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("asyncio", "email", "importlib", "logging", "multiprocessing", "tkinter", "unittest")
"""The classes: each text is a sentence of a docstring in one of these packages."""
FEWEST_WORDS = 5


def read_docstrings() -> list[tuple[str, str]]:
    """Return different (package, sentence) pairs, always in the same order."""
    library = Path(sysconfig.get_path("stdlib"))
    found = {
        sentence: package
        for package in PACKAGES
        for path in sorted((library / package).rglob("*.py"))
        if "test" not in path.parts
        for sentence in _read_sentences(path)
    }
    return [(package, sentence) for sentence, package in sorted(found.items())]


def _read_sentences(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_bytes())
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        for sentence in re.split(r"(?<=\.)\s+|\n\n", text or ""):
            words = sentence.split()
            if len(words) >= FEWEST_WORDS:
                yield " ".join(words)
