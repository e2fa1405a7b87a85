"""Texts that need no download.

They are sentences of the documentation in Python's standard library, and the messages of programs
in this system's translations.
"""

import ast
import gettext
import re
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.training.text import read_texts

PACKAGES = ("asyncio", "email", "importlib", "logging", "multiprocessing", "tkinter", "unittest")
"""The classes: each text is a sentence of a docstring in one of these packages."""
FEWEST_WORDS = 5
TRANSLATIONS = Path("/usr/share/locale")
MOST_PROGRAMS = 6
MESSAGE_LENGTHS = range(12, 301)
"""Characters of a message that is used."""
FIRST_FOREIGN = "\u0e00"
"""First letter of the Thai block; Chinese and Japanese come after it."""


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


def read_messages(language: str) -> list[tuple[str, str]]:
    """Return (program, message) pairs of the programs with most messages in a language.

    A message that two programs have is left out.

    Raises:
        FileNotFoundError: This system has no translations into the language.
    """
    paths = sorted((TRANSLATIONS / language / "LC_MESSAGES").glob("*.mo"))
    programs = {path.stem: _read_messages(path) for path in paths if "iso" not in path.stem}
    chosen = sorted(programs, key=lambda name: -len(programs[name]))[:MOST_PROGRAMS]
    if not chosen:
        raise FileNotFoundError(f"no translations in {TRANSLATIONS / language}")
    counts = Counter(text for name in chosen for text in programs[name])
    return [(name, text) for name in chosen for text in sorted(programs[name]) if counts[text] == 1]


def _read_messages(path: Path) -> set[str]:
    with path.open("rb") as file:
        catalog = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    return {
        text
        for source, text in catalog.items()
        if source and len(text) in MESSAGE_LENGTHS and max(text) >= FIRST_FOREIGN
    }


SETS: dict[str, Callable[[], list[tuple[str, str]]]] = {
    "docstrings": read_docstrings,
    "sms": lambda: read_texts()[0],
    "thai": lambda: read_messages("th"),
    "japanese": lambda: read_messages("ja"),
    "chinese": lambda: read_messages("zh_CN"),
}
"""How to read each set, as (class, text) pairs."""


def _read_sentences(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_bytes())
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        for sentence in re.split(r"(?<=\.)\s+|\n\n", text or ""):
            words = sentence.split()
            if len(words) >= FEWEST_WORDS:
                yield " ".join(words)
